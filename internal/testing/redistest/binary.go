// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
)

// ServerEnv names the environment variable that holds the server binary to run, a path or a name on PATH.
// Without it redis-server is run. It may be a script that execs the server at its end, because signals are
// sent to the process that was started. The same binary runs as a node of a cluster and as a sentinel.
const ServerEnv = "SIGNALBOX_TEST_SERVER"

// serverBinary finds the server to run.
func serverBinary() (string, error) {
	name := os.Getenv(ServerEnv)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no Redis server to test with: install redis-server (Debian: apt-get install redis-server), "+
			"run `make redis`, or set %s to the binary of a Redis or Valkey server: %w", ServerEnv, err)
	}
	return path, nil
}

// missingServer reports to the tests of a process that there is no server to run.
type missingServer struct{ reported atomic.Bool }

//nolint:gochecknoglobals // a process reports it once
var noServer missingServer

// NeedServer ends a test if there is no server to run. Only the first such test of the process fails, and says what to
// install; the others are skipped. [Start], [StartSentinel] and [StartCluster] call it. A test that uses
// [StartServer] or [Topologies] calls it first.
func NeedServer(tb testing.TB) {
	tb.Helper()
	noServer.end(tb)
}

func (m *missingServer) end(tb testing.TB) {
	tb.Helper()
	if _, err := serverBinary(); err == nil {
		return
	} else if m.reported.CompareAndSwap(false, true) {
		tb.Fatal(err)
	}
	tb.Skip("no Redis server to test with: another test of this package says what to install")
}
