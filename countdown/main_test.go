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

// serverURL is where the examples find a server, such as "redis://localhost:6379".
var serverURL string

func TestMain(m *testing.M) { goleak.VerifyTestMain(besideServer{m}) }

// besideServer runs everything while the server of the examples runs. Tests start servers of
// their own.
type besideServer struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (b besideServer) Run() int {
	flag.Parse()
	// These tests wait for wires that are given up, so more of them than there are processors have a use.
	if err := flag.Set("test.parallel", "16"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server, err := redistest.StartServer()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	serverURL = server.URL()
	return b.tests.Run()
}
