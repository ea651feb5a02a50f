// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURLs are where the examples find servers, such as "redis://localhost:6379".
var serverURLs [3]string

// shared are the servers of all tests that do no harm to them. The examples use the first three.
var shared [5]*redistest.Server

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithParallelism(4, besideServers{m}))
}

// besideServers runs everything while the shared servers run.
type besideServers struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (b besideServers) Run() int {
	for i := range shared {
		server, err := redistest.StartServer()
		if err == nil {
			defer server.Close()
			err = locktest.Establish(server)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		shared[i] = server
	}
	for i := range serverURLs {
		serverURLs[i] = shared[i].URL()
	}
	return b.tests.Run()
}
