// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

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
// the examples of a package, and for tests that need no server of their own: those call NeedServer. If NeedServer would skip them, the
// examples are left out, and use is not called.
func WithServer(tests Tests, use func(server *Server)) Tests {
	return testFunc(func() int {
		server, err := StartServer()
		if mayLack(err) {
			fmt.Fprintln(os.Stderr, "no examples:", err)
			flag.Parse()
			_ = flag.Set("test.skip", "^Example")
			return tests.Run()
		}
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
		if flag.Parse(); UnderRace {
			_ = flag.Set("test.short", "true")
		}
		return tests.Run()
	})
}

// reporter reports failures that no caller gets as an error.
type reporter struct{ tb testing.TB } // nil in a program without a test

// failf marks the test as failed. It does not end it, because that is allowed only in the
// goroutine of the test, and hooks of a proxy run in others.
func (r reporter) failf(format string, args ...any) {
	if r.tb == nil {
		panic(fmt.Sprintf(format, args...))
	}
	r.tb.Helper()
	r.tb.Errorf(format, args...)
}

// tailSize is enough for what a server logs at its start and at a few failures.
const tailSize = 16 << 10

// tail is a writer that keeps the last tailSize to 2*tailSize bytes.
type tail struct {
	mu struct {
		sync.Mutex
		kept []byte
	}
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.kept = append(t.mu.kept, p...)
	if over := len(t.mu.kept) - 2*tailSize; over > 0 {
		t.mu.kept = append([]byte(nil), t.mu.kept[over+tailSize:]...)
	}
	return len(p), nil
}

// String returns what was kept.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.mu.kept)
}

// Processor returns the name of the processor, as far as Linux reports it, else "". Figures name it.
func Processor() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for entry := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(entry, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
