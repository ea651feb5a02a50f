// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const (
	// FaketimeEnv names the environment variable that holds the path of libfaketime, by which servers have clocks of
	// their own. Without it the library is looked for where distributions put it.
	FaketimeEnv = "SIGNALBOX_TEST_FAKETIME"
	// NeedFaketimeEnv names the environment variable that says "required" where tests of such clocks must not be skipped.
	NeedFaketimeEnv = "SIGNALBOX_FAKETIME"
)

// WithClockAhead lets the server's wall clock run so far ahead of this machine's, or behind it where ahead is negative. Keys
// end by that clock, and TIME tells it. The monotonic clock is the machine's. A test that uses it calls NeedClocks first.
func WithClockAhead(ahead time.Duration) Option {
	return func(c *config) { c.ahead = ahead }
}

// NeedClocks skips a test where no server can have a clock of its own, or fails it where NeedFaketimeEnv says so.
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
		// The one for programs with threads, MT, counts calls, which is of no use here.
		if found, err := filepath.Glob(filepath.Join(place, "libfaketime.so.1")); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", errNoFaketime
}

// clocked returns how a program is run with a wall clock of its own: by env, which becomes the program.
//
// The C library comes before what else has malloc, such as the jemalloc of a server: that asks for the time while it is made ready,
// libfaketime asks for memory to answer, and the two wait for each other.
func clocked(p program, ahead time.Duration) (program, error) {
	if ahead == 0 {
		return p, nil
	}
	library, err := faketime()
	if err != nil {
		return program{}, err
	}
	p.args = append([]string{
		"LD_PRELOAD=" + library + " libc.so.6",
		fmt.Sprintf("FAKETIME=%+.3f", ahead.Seconds()),
		"FAKETIME_DONT_FAKE_MONOTONIC=1",
		p.path,
	}, p.args...)
	p.path = "/usr/bin/env"
	return p, nil
}

// forgetClock removes the names of what libfaketime shares with children of the process pid. It has none, and would leave them when it is
// killed.
func forgetClock(pid int) {
	for _, name := range []string{"faketime_shm_", "sem.faketime_sem_"} {
		_ = os.Remove(filepath.Join("/dev/shm", name+strconv.Itoa(pid))) // there is none where no clock is its own
	}
}
