// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("sets", runSets)
	if redistest.RunChild() {
		return
	}
	// The client of a cluster leaves these behind when it is closed; they end after a second and after five.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(redistest.ClusterDelay), goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction(redistest.ClusterRedirect),
	)
}
