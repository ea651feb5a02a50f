// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// server is shared by the tests that change nothing but keys of their own.
var server *redistest.Server

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(redistest.Beside(m, func(s *redistest.Server) { server = s }))
}
