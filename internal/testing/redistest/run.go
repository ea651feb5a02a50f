// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"flag"
	"fmt"
	"os"
	"strconv"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// Tests are those of a package, as its TestMain has them: a *testing.M, or what was made of one here.
type Tests interface{ Run() int }

// VerifyTestMain runs tests, writes what they counted, exits, and fails if they leave a goroutine behind. Those are no fault in which a client of a
// cluster waits for some seconds although it was closed.
func VerifyTestMain(tests Tests) {
	goleak.VerifyTestMain(counted(tests),
		// It closes the connections that the client has replaced, after five seconds.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		// It asks for the nodes again, up to a second after an error.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		// It closes the connection to a node that sent the client back to that node, after five seconds.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"))
}

// counted returns tests after which the file of package tally is written.
func counted(tests Tests) Tests {
	return testFunc(func() int {
		code := tests.Run()
		if err := tally.Write(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	})
}

// testFunc runs tests.
type testFunc func() int

// Run implements Tests.
func (f testFunc) Run() int { return f() }

// WithServer returns tests that run while a server runs. use is called with the server before them. It is for
// the examples of a package, and for tests that need no server of their own.
func WithServer(tests Tests, use func(server *Server)) Tests {
	return testFunc(func() int {
		server, err := StartServer()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer server.Close()
		use(server)
		return tests.Run()
	})
}

// WithParallelism returns tests of which n that call t.Parallel run at a time, whatever -parallel says: for those that wait for
// servers, wires and the ends of leases, for which more tests than processors are of use.
func WithParallelism(n int, tests Tests) Tests {
	return testFunc(func() int {
		flag.Parse()
		if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return tests.Run()
	})
}

// ShortUnderRace returns tests that take their short form under the race detector, with which the interpreter of an
// embedded server is ten times slower. make test-full runs the long form without it.
func ShortUnderRace(tests Tests) Tests {
	return testFunc(func() int {
		if flag.Parse(); underRace {
			_ = flag.Set("test.short", "true")
		}
		return tests.Run()
	})
}
