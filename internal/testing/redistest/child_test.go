// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// runEcho says its environment's GREETING and then each line it reads.
func runEcho(stdin io.Reader, stdout io.Writer) {
	fmt.Fprintln(stdout, os.Getenv("GREETING"))
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintln(stdout, in.Text())
	}
	fmt.Fprint(stdout, "bye")
}

func runExit(io.Reader, io.Writer) {
	fmt.Fprintln(os.Stderr, "cannot continue")
	os.Exit(7)
}

func echo(t *testing.T) *redistest.Process {
	t.Helper()
	p := redistest.Child(t, "echo", "GREETING=hello")
	requireLine(t, p, "hello")
	return p
}

func requireLine(t *testing.T, p *redistest.Process, want string) {
	t.Helper()
	line, err := p.ReadLine(patience)
	require.NoError(t, err)
	require.Equal(t, want, line)
}

func TestChildRunsTheRegisteredFunctionElsewhere(t *testing.T) {
	t.Parallel()
	p := echo(t)
	require.NotEqual(t, os.Getpid(), p.PID())
	p.Send("one")
	p.Send("two")
	requireLine(t, p, "one")
	requireLine(t, p, "two")
	p.CloseInput()
	requireLine(t, p, "bye") // without a line end
	_, err := p.ReadLine(patience)
	require.ErrorIs(t, err, io.EOF)
	require.Zero(t, p.Wait(patience))
}

func TestFrozenChildIsSilentUntilThawed(t *testing.T) {
	t.Parallel()
	p := echo(t)
	p.Freeze()
	p.Send("late")
	_, err := p.ReadLine(quiet)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	p.Thaw()
	requireLine(t, p, "late")
}

func TestKilledChildReportsByItsExitCode(t *testing.T) {
	t.Parallel()
	p := echo(t)
	p.Kill()
	require.False(t, alive(p.PID()))
	require.Equal(t, 128+9, p.Wait(patience))
}

func TestExitCodeAndLastWordsOfAChildAreKept(t *testing.T) {
	t.Parallel()
	p := redistest.Child(t, "exit")
	require.Equal(t, 7, p.Wait(patience))
	require.Contains(t, p.Stderr(), "cannot continue")
}

func TestUnknownChildReportsThat(t *testing.T) {
	t.Parallel()
	p := redistest.Child(t, "unknown")
	require.Equal(t, 2, p.Wait(patience))
	require.Contains(t, p.Stderr(), `no child is registered as "unknown"`)
}
