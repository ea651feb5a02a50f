// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("keeper", runKeeper)
	if redistest.RunChild() {
		return
	}
	tests := redistest.WithServer(m, func(*redistest.Server) {}) // which says once that there is no server to run, if so
	redistest.VerifyTestMain(redistest.WithParallelism(8, tests))
}
