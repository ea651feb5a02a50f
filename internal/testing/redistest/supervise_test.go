// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// runKeeper starts a server, says its process id and folder, and waits.
func runKeeper(stdin io.Reader, stdout io.Writer) {
	s, err := redistest.StartServer()
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	if os.Getenv("KEEPER_FREEZES") != "" {
		fmt.Fprintln(stdout, s.PID(), folder(s))
		s.Freeze()
		fmt.Fprintln(stdout, "frozen")
	} else {
		fmt.Fprintln(stdout, s.PID(), folder(s))
	}
	_, _ = bufio.NewReader(stdin).ReadString('\n')
	// Ends without Close.
}

// folder returns the folder that a server runs in.
func folder(s *redistest.Server) string {
	reply, err := s.Do("CONFIG", "GET", "dir")
	if pair, ok := reply.([]any); err == nil && ok {
		return fmt.Sprint(pair[1])
	}
	return fmt.Sprint(err)
}

// keeper starts a child that keeps a server and returns the server's process id and folder.
func keeper(t *testing.T, env ...string) (child *redistest.Process, pid int, dir string) {
	t.Helper()
	child = redistest.Child(t, "keeper", env...)
	line, err := child.ReadLine(redistest.Patience)
	require.NoError(t, err)
	text, dir, _ := strings.Cut(line, " ")
	pid, err = strconv.Atoi(text)
	require.NoError(t, err, line)
	require.DirExists(t, dir)
	require.True(t, alive(pid))
	return child, pid, dir
}

func alive(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func requireGone(t *testing.T, pid int, dir string) {
	t.Helper()
	redistest.Await(t, "process left", func() bool { return !alive(pid) })
	redistest.Await(t, "folder left", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	})
}

// TestNothingIsLeftOfAParentKilledDuringItsStart kills a process that starts a
// server, at another moment each time. Its folder and the server's are all that it could
// leave, and the supervisors remove them last.
func TestNothingIsLeftOfAParentKilledDuringItsStart(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		tmp := t.TempDir()
		child := redistest.Child(t, "keeper", "TMPDIR="+tmp)
		_, err := child.ReadLine(time.Duration(i) * 6 * time.Millisecond)
		t.Log(err) // first it has not started the server yet, later it has
		child.Kill()
		redistest.Await(t, "folder left", func() bool {
			left, err := os.ReadDir(tmp)
			return err == nil && len(left) == 0
		})
	}
}

// A server dies with its parent, however that ends, and whether the server or the parent is stopped.
func TestServerDiesWithItsParent(t *testing.T) {
	redistest.NeedServer(t)
	t.Parallel()
	for name, end := range map[string]func(child *redistest.Process){
		"Killed": (*redistest.Process).Kill,
		"Frozen": func(child *redistest.Process) {
			child.Freeze()
			child.Kill()
		},
		"Forgets it": func(child *redistest.Process) {
			child.Send("end")
			require.Zero(t, child.Wait(redistest.Patience))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child, pid, dir := keeper(t)
			end(child)
			requireGone(t, pid, dir)
		})
	}
	t.Run("Killed beside a frozen server", func(t *testing.T) {
		t.Parallel()
		child, pid, dir := keeper(t, "KEEPER_FREEZES=1")
		line, err := child.ReadLine(redistest.Patience)
		require.NoError(t, err)
		require.Equal(t, "frozen", line)
		child.Kill()
		requireGone(t, pid, dir)
	})
}

func TestMain(m *testing.M) {
	redistest.RegisterChild("keeper", runKeeper)
	if redistest.RunChild() {
		return
	}
	tests := redistest.WithServer(m, func(*redistest.Server) {}) // which says once that there is no server to run, if so
	redistest.VerifyTestMain(redistest.WithParallelism(8, tests))
}
