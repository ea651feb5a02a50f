// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
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

// Clock is a server's wall clock that a test sets while the server runs. Keys expire by it, and TIME returns it. The monotonic clock is
// the machine's.
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
func clocked(p program, steps *Clock) (program, error) {
	if steps == nil {
		return p, nil
	}
	library, err := faketime()
	if err != nil {
		return program{}, err
	}
	p.args = append([]string{
		"LD_PRELOAD=" + library + " libc.so.6", "FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_TIMESTAMP_FILE=" + steps.file, "FAKETIME_NO_CACHE=1", p.path,
	}, p.args...)
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

// versionForm is what a server replies to --version: "Redis server v=6.2.14 sha=..." or "Valkey server v=9.1.2 ...".
var versionForm = regexp.MustCompile(`v=(\d+)\.`)

// oldBinaries has for each binary whether it is older than Redis 7.0.
//
//nolint:gochecknoglobals // each binary runs for its version once in a process
var oldBinaries sync.Map

// isOld reports whether a server is older than Redis 7.0: it lacks options that this package gives newer ones.
func isOld(binary string) bool {
	if known, found := oldBinaries.Load(binary); found {
		old, _ := known.(bool)
		return old
	}
	text, _ := exec.Command(binary, "--version").Output() //nolint:noctx // it ends at once
	m := versionForm.FindSubmatch(text)
	old := false
	if m != nil {
		major, err := strconv.Atoi(string(m[1]))
		old = err == nil && major < 7
	}
	oldBinaries.Store(binary, old)
	return old
}

// IsOld reports whether the servers of tests are older than Redis 7.0.
func IsOld(tb testing.TB) bool {
	tb.Helper()
	binary, err := serverBinary()
	return err == nil && isOld(binary)
}

// KeyEnds is a function of Lua that returns when a key ends, as PEXPIRETIME does, by what servers before Redis 7.0 have
// as well: in milliseconds since 1970; -1 if it has no end, and -2 if there is no key. It goes before a script.
//
//nolint:dupword // blocks of Lua end one behind the other
const KeyEnds = `local real = redis
local function key_ends(key)
  if real.REDIS_VERSION_NUM then
    return real.call('PEXPIRETIME', key)
  end
  while true do
    local before, left, after = real.call('TIME'), real.call('PTTL', key), real.call('TIME')
    local ms = math.floor(before[2] / 1000)
    if left < 0 then
      return left
    elseif before[1] == after[1] and ms == math.floor(after[2] / 1000) then
      return before[1] * 1000 + ms + left
    end
  end
end
`

// Timed goes before a script whose clock is that of a test, also for the ends of keys. Its last two arguments are the seconds and the
// microseconds of that clock. All ends are set ten years later, so that the server ends no key.
//
//nolint:dupword // blocks of Lua end one behind the other
const Timed = KeyEnds + `local server, us, seconds = redis, table.remove(ARGV), table.remove(ARGV)
local later = 315360000000
local at = later + seconds * 1000 + math.floor(us / 1000)
local function ends(key)
  local known, ms = pcall(key_ends, key) -- the user may have no right to ask
  return known and ms or -1
end
local function is_over(key)
  return ends(key) >= 0 and ends(key) <= at
end
local function run(how, command, key, ...)
  local args = {...}
  if command == 'TIME' then
    return {seconds, us}
  elseif not key then
    return server[how](command)
  elseif command == 'PTTL' then
    return pcall(key_ends, key) and (ends(key) < 0 and ends(key) or ends(key) - at) or server[how](command, key)
  elseif command == 'PEXPIRETIME' then
    return ends(key) < 0 and ends(key) or ends(key) - later
  elseif command == 'PEXPIRE' then
    return server[how]('PEXPIREAT', key, string.format('%.0f', at + args[1]), unpack(args, 2))
  elseif command == 'SET' and args[2] == 'PX' then
    return server[how]('SET', key, args[1], 'PXAT', string.format('%.0f', at + args[3]), unpack(args, 4))
  end
  local reply = server[how](command, key, ...)
  if command == 'GET' and is_over(key) then
    return false
  elseif command == 'MGET' and not reply['err'] then
    for n, each in ipairs({key, ...}) do
      reply[n] = not is_over(each) and reply[n]
    end
  end
  return reply
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
`

// LaterMS is what Timed adds to the end of each key, in milliseconds.
const LaterMS = 315_360_000_000

// doer is what sends a command.
type doer interface {
	MustDo(tb testing.TB, words ...any) any
}

// EndOf returns when a key of the server ends, in milliseconds since 1970: -1 if it has no end, and -2 if there is no key.
func EndOf(tb testing.TB, server doer, key string) int64 {
	tb.Helper()
	ms, _ := server.MustDo(tb, "EVAL", KeyEnds+"return key_ends(KEYS[1])", 1, key).(int64)
	return ms
}
