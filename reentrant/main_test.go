// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// serverURL is where the examples find a server, such as "redis://localhost:6379".
var serverURL string

func TestMain(m *testing.M) {
	redistest.RegisterChild("holder", runHolder)
	if redistest.RunChild() {
		return
	}
	// A client of a cluster asks for its nodes up to a second after one was lost, and closes what it had to
	// one that has left five seconds after that, whether it was closed itself by then or not.
	goleak.VerifyTestMain(besideServer{m},
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// besideServer runs everything while the server of the examples runs. Tests start servers of
// their own.
type besideServer struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (b besideServer) Run() int {
	server, err := redistest.StartServer()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	serverURL = server.URL()
	return b.tests.Run()
}
