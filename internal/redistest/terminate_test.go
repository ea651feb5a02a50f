// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whenever the signal comes, the program ends: also between the report of the supervisor and its wait for the end of the
// lifeline, which this meets often.
func TestATerminatedSupervisorKillsItsProgramFromTheStart(t *testing.T) {
	t.Parallel()
	for range 100 {
		s, err := supervise(program{path: "sleep", args: []string{"600"}, log: new(tail)})
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(s.shell.Process.Pid, syscall.SIGTERM))
		Receive(t, 20*time.Second, "the end of the program", s.gone)
		s.end()
		require.NoDirExists(t, s.dir)
	}
}
