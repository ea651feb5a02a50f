// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

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

// NeedNew skips a test that needs what came with Redis 7.0, if the servers of tests are older.
func NeedNew(tb testing.TB, what string) {
	tb.Helper()
	if IsOld(tb) {
		tb.Skipf("the server is older than Redis 7.0, with which %s came", what)
	}
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
