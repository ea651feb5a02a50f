// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// Too many would be failovers of their own.
	goleak.VerifyTestMain(redistest.WithParallelism(6, m), goleak.IgnoreAnyFunction(redistest.ClusterRefresh), goleak.IgnoreAnyFunction(redistest.ClusterDelay))
}
