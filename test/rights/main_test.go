// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait for leases and lingering channels, so more of them than there are processors have a use.
	if err := flag.Set("test.parallel", "24"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// What a client of a cluster that met an error or a redirection still does after its Close, for some seconds.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}
