// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("java", runJava)
	redistest.RegisterChild("worker", runWorker)
	redistest.RegisterChild("holder", runHolder)
	if redistest.RunChild() {
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(redistest.ClusterRefresh), goleak.IgnoreAnyFunction(redistest.ClusterDelay))
}
