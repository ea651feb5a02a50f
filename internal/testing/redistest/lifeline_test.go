// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
)

// Whenever a signal comes, the lifeline ends the program and nothing else does: also between the report of the supervisor
// and its wait for the end of the lifeline, which this test hits often.
func TestSignalToASupervisorLeavesItsProgramToTheLifeline(t *testing.T) {
	t.Parallel()
	for i := range 40 {
		s, err := supervise(program{path: "sleep", args: []string{"600"}, log: new(tail)})
		require.NoError(t, err)
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}[:i%5] {
			require.NoError(t, sendSignal(s.shell.Process.Pid, sig))
		}
		require.True(t, s.running())
		require.Equal(t, 128+int(syscall.SIGKILL), s.end(), fmt.Sprint("after ", i%5, " signals"))
		require.NoDirExists(t, s.dir)
	}
}

func TestProgramThatNothingRefersToKeepsItsLifeline(t *testing.T) {
	t.Parallel()
	forgotten := func() weak.Pointer[supervised] {
		s, err := supervise(program{path: "sleep", args: []string{"600"}, log: new(tail)})
		require.NoError(t, err)
		return weak.Make(s)
	}()
	runtime.GC()
	s := forgotten.Value()
	require.NotNil(t, s, "the collector closes its lifeline")
	require.Equal(t, 128+int(syscall.SIGKILL), s.end())
}
