// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// serverURLs are where the examples find servers, such as "redis://localhost:6379".
var serverURLs [3]string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(redistest.AtATime(4, besideServers{m}), goleak.IgnoreAnyFunction(redistest.ClusterRefresh),
		goleak.IgnoreAnyFunction(redistest.ClusterDelay), goleak.IgnoreAnyFunction(redistest.ClusterRedirect))
}

// besideServers runs everything while the servers of the examples run. Tests start servers of their own.
type besideServers struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (b besideServers) Run() int {
	for i := range serverURLs {
		server, err := redistest.StartServer()
		if err == nil {
			defer server.Close()
			_, err = server.Do("EVAL", establish, 1, "sb:epoch")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		serverURLs[i] = server.URL()
	}
	return b.tests.Run()
}
