// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURL is where the example finds a server.
var serverURL string

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() }))
}
