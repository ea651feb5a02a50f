// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// server is shared by the tests that change nothing but keys of their own.
var server *redistest.Server

func TestMain(m *testing.M) { goleak.VerifyTestMain(besideServer{m}) }

// besideServer runs the tests while the shared server runs.
type besideServer struct{ tests *testing.M }

// Run implements goleak.TestingM.
func (b besideServer) Run() int {
	var err error
	if server, err = redistest.StartServer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Close()
	return b.tests.Run()
}
