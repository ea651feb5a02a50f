// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

const (
	// FaketimeEnv names the environment variable that holds the path of libfaketime, by which servers have clocks of
	// their own. Without it the library is searched for where distributions put it.
	FaketimeEnv = "SIGNALBOX_TEST_FAKETIME"
	// NeedFaketimeEnv names the environment variable that is "required" if tests of such clocks must not be
	// skipped.
	NeedFaketimeEnv = "SIGNALBOX_FAKETIME"
)

// WithClockAhead sets the server's wall clock ahead of this machine's, or behind it if ahead is negative.
// Keys expire by that clock, and TIME returns it. The monotonic clock is the machine's. A test that uses it
// calls NeedClocks first.
func WithClockAhead(ahead time.Duration) Option {
	return func(c *config) { c.ahead = ahead }
}

// Clock is a server's wall clock that a test sets while the server runs.
type Clock struct{ file string }

// NewClock returns a clock that shows the machine's time. A test that uses it calls NeedClocks first.
func NewClock(tb testing.TB) *Clock {
	tb.Helper()
	c := &Clock{filepath.Join(tb.TempDir(), "ahead")}
	c.set(tb, 0)
	return c
}

// Set sets the clock ahead of this machine's, or behind it if ahead is negative.
func (c *Clock) Set(tb testing.TB, ahead time.Duration) {
	tb.Helper()
	tally.Fault("server's clock set")
	c.set(tb, ahead)
}

func (c *Clock) set(tb testing.TB, ahead time.Duration) {
	tb.Helper()
	// By a rename: the server reads the file each time that it asks for the time.
	err := os.WriteFile(c.file+".new", fmt.Appendf(nil, "%+.3f\n", ahead.Seconds()), 0o600)
	if err == nil {
		err = os.Rename(c.file+".new", c.file)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// WithClock gives the server that clock.
func WithClock(clock *Clock) Option {
	return func(c *config) { c.steps = clock }
}

// NeedClocks skips a test if servers cannot have clocks of their own here, or fails it if NeedFaketimeEnv
// says so.
func NeedClocks(tb testing.TB) {
	tb.Helper()
	_, err := faketime()
	switch {
	case err == nil:
	case os.Getenv(NeedFaketimeEnv) == "required":
		tb.Fatal(err)
	default:
		tb.Skip(err)
	}
}

// HasClocks reports whether servers can have clocks of their own here.
func HasClocks() bool {
	_, err := faketime()
	return err == nil
}

var errNoFaketime = errors.New("there is no libfaketime, by which a server has a clock of its own: " +
	"make faketime installs it, or name it in " + FaketimeEnv)

// faketime finds the library.
func faketime() (string, error) {
	if path := os.Getenv(FaketimeEnv); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %w", errNoFaketime, err)
		}
		return path, nil
	}
	for _, place := range []string{"/usr/lib*/faketime", "/usr/lib/*/faketime"} {
		// The variant for programs with threads, libfaketimeMT, counts calls, which is of no use here.
		if found, err := filepath.Glob(filepath.Join(place, "libfaketime.so.1")); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errNoFaketime
}

// clocked returns how to run a program with a wall clock of its own: env sets the clock and execs the
// program.
//
// The C library is preloaded before other libraries with a malloc, such as a server's jemalloc. Otherwise
// jemalloc asks for the time during its initialisation, libfaketime allocates memory to return it, and the
// two wait for each other.
func clocked(p program, ahead time.Duration, steps *Clock) (program, error) {
	if ahead == 0 && steps == nil {
		return p, nil
	}
	library, err := faketime()
	if err != nil {
		return program{}, err
	}
	clock := []string{fmt.Sprintf("FAKETIME=%+.3f", ahead.Seconds())}
	if steps != nil {
		clock = []string{"FAKETIME_TIMESTAMP_FILE=" + steps.file, "FAKETIME_NO_CACHE=1"}
	}
	p.args = slices.Concat([]string{"LD_PRELOAD=" + library + " libc.so.6", "FAKETIME_DONT_FAKE_MONOTONIC=1"}, clock, []string{p.path}, p.args)
	p.path = "/usr/bin/env"
	return p, nil
}

// forgetClock removes the shared memory that libfaketime makes for children of the process pid. The process
// has no children, and leaves that memory behind if it is killed.
func forgetClock(pid int) {
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove(filepath.Join("/dev/shm", name+strconv.Itoa(pid))) // missing if the process has the machine's clock
	}
}
