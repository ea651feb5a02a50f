// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// common is the server of all tests that do nothing to it. Tests that count its commands do not run in parallel.
var common *redistest.Server

func TestMain(m *testing.M) {
	redistest.RegisterChild("worker", runWorker)
	redistest.RegisterChild("waiter", runWaiter)
	redistest.RegisterChild("member", runMember)
	redistest.RegisterChild("writer", runWriter)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(redistest.WithParallelism(12, redistest.WithServer(m, func(s *redistest.Server) { common = s })))
}
