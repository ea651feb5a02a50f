// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

var (
	common    *redistest.Server // of all tests that do nothing to it
	serverURL string            // of the same, for the examples
)

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithParallelism(6, redistest.WithServer(m, func(s *redistest.Server) { common, serverURL = s, s.URL() })))
}
