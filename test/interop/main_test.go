// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("java", runJava)
	redistest.RegisterChild("python", runPython)
	redistest.RegisterChild("worker", runWorker)
	redistest.RegisterChild("taker", runTaker)
	redistest.RegisterChild("holder", runHolder)
	redistest.RegisterChild("fair", runFairWaiter)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(withJava{redistest.WithParallelism(12, m)})
}
