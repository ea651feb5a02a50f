// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A client of a cluster asks for its nodes up to a second after one was lost, and closes what it had to
	// one that has left five seconds after that, whether it was closed itself by then or not.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
