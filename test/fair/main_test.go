// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("crowd", runCrowd)
	redistest.RegisterChild("queue", runQueue)
	if redistest.RunChild() {
		return
	}
	// The client of a cluster leaves these behind when it is closed; they end after a second and after five.
	redistest.VerifyTestMain(redistest.WithParallelism(4, m))
}
