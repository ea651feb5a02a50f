// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("side", runSide)
	redistest.RegisterChild("crowd", runCrowd)
	if redistest.RunChild() {
		return
	}
	// The client of a cluster leaves these behind when it is closed; they end after a second and after five.
	redistest.VerifyTestMain(redistest.WithParallelism(4, m))
}
