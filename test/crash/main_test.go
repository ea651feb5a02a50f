// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("holder", runHolder)
	redistest.RegisterChild("keeper", runKeeper)
	redistest.RegisterChild("worker", runWorker)
	redistest.RegisterChild("young", runYoung)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(m)
}
