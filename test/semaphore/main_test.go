// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("workers", runWorkers)
	if redistest.RunChild() {
		return
	}
	// The client of a cluster leaves these behind when it is closed; they end after a second and after five.
	goleak.VerifyTestMain(redistest.WithParallelism(6, m),
		goleak.IgnoreAnyFunction(redistest.ClusterDelay), goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}
