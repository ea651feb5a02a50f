// SPDX-License-Identifier: Apache-2.0

package multilock_test

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
	goleak.VerifyTestMain(besideServer{m},
		goleak.IgnoreAnyFunction(redistest.ClusterDelay), goleak.IgnoreAnyFunction(redistest.ClusterRefresh))
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
