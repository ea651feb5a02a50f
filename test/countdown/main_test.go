// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("starter", runStarter)
	redistest.RegisterChild("worker", runWorker)
	redistest.RegisterChild("waiter", runWaiter)
	if redistest.RunChild() {
		return
	}
	flag.Parse()
	// These tests wait for wires that are given up, so more of them than there are processors have a use.
	if err := flag.Set("test.parallel", "8"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The client of a cluster leaves these behind when it is closed; they end after a second and after five.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction(redistest.ClusterDelay),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
	)
}
