// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// What a client of a cluster that met an error or a redirection still does after its Close, for some seconds.
	goleak.VerifyTestMain(redistest.WithParallelism(24, m),
		goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction(redistest.ClusterDelay),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}
