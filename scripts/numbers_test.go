// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var (
	badNumbers = []string{"-1", "-9000000000000000000", "nan", "inf", "x", "", " 1", "1.5", "1e3", "0x10", "9000000000000000000", strings.Repeat("9", 30)}
	duration   = regexp.MustCompile(`^[a-z]\w*_[mu]s$`)
	goodLock   = regexp.MustCompile(`(?s)^sb1(-\d{16}$|l\d{16}.{41}[rf-][q-]|q\d{16}.{63})`)
)

// releases have durations that matter for the floor alone. A release is done whatever they say.
var releases = []string{
	"holder/force", "lock/force", "lock/free", "lock/leave", "lock/release-many", "redlock/release", "rwlock/downgrade", "rwlock/force", "rwlock/leave", "semaphore/leave",
}

// numbersOf returns the places of a script's durations among its arguments.
func numbersOf(script *scripts.Script) (at []int) {
	var names []string
	for _, f := range fieldsOf(script.Source, "ARGV") {
		if names = append(names, f.name); f.index == "n" {
			names = f.parts
		}
	}
	for i, name := range names {
		if duration.MatchString(name) {
			at = append(at, i)
		}
	}
	return at
}

// eachBadNumber runs a check for every duration of every script, by the first of its rows of costs.
func eachBadNumber(t *testing.T, check func(t *testing.T, m *measured, row costRow, keys []string, args []any)) {
	t.Helper()
	seen := make(map[string]bool)
	for _, row := range costRows() {
		numbers := numbersOf(row.script)
		if seen[row.script.Name] || len(numbers) == 0 {
			continue
		}
		seen[row.script.Name] = true
		t.Run(row.script.Name, func(t *testing.T) {
			t.Parallel()
			for _, at := range numbers {
				for _, bad := range badNumbers {
					m := newMeasured(t)
					if row.fill != nil {
						row.fill(m, 1)
					}
					args := slices.Clone(row.args(m, 1))
					args[at] = bad
					t.Logf("argument %d is %q", at+1, bad)
					check(t, m, row, row.keys(m, 1), args)
				}
			}
		})
	}
}

// P1, P4: a duration that is no number of 1 to 15 digits is refused before anything is written. A negative one would delete the
// key of a hold, and a great one would shift what stands behind it. A renewal refuses it for its key alone.
func TestScriptsRefuseDurationsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	eachBadNumber(t, func(t *testing.T, m *measured, row costRow, keys []string, args []any) {
		t.Helper()
		if slices.Contains(releases, row.script.Name) {
			return
		}
		unchanged := m.unchangedKeys(func() []string { return keys })
		reply, err := m.tryKeys(row.script, keys, args...)
		if strings.HasSuffix(row.script.Name, "renew") || row.script == proto.LockKeepScript {
			require.NoError(t, err)
			require.Equal(t, []any{int64(-8)}, reply)
		} else {
			require.ErrorContains(t, err, "bad argument")
		}
		unchanged()
	})
}

// P10: a release is done whatever it says of the floor's life, and leaves a key that others can use, with an end.
func TestReleasesAreDoneWhateverTheFloorsLife(t *testing.T) {
	t.Parallel()
	eachBadNumber(t, func(t *testing.T, m *measured, row costRow, keys []string, args []any) {
		t.Helper()
		if !slices.Contains(releases, row.script.Name) {
			return
		}
		_, err := m.tryKeys(row.script, keys, args...)
		if err != nil {
			require.Contains(t, row.script.Name, "semaphore/", "%v", err) // what comes behind the release needs the number
		}
		if m.server.MustDo(t, "TYPE", m.key) == "string" {
			require.Regexp(t, goodLock, m.value())
		}
		for _, key := range keys {
			require.NotEqual(t, int64(-1), m.server.MustDo(t, "PTTL", key), "%s has no end", key)
		}
	})
}

// P4: the key of a released lock has the stamp of the last token that was used, so only a stamp is written there.
func TestReleasesIgnoreBadStamps(t *testing.T) {
	t.Parallel()
	for _, bad := range append(slices.Clone(badNumbers), "178000000000000x", "17800000000000000") {
		for name, run := range map[string]func(f *fixture) (any, error){
			"Leave": func(f *fixture) (any, error) {
				f.set(lockSays(ours+turnMode, noon, "-"), time.Minute)
				return f.tryKeys(proto.LockLeaveScript, []string{f.key, f.key + ":queue", f.key + ":heartbeats"}, ours+turnMode, we, "PUBLISH", "g", keepMS, bad, "1")
			},
			"Free": func(f *fixture) (any, error) {
				f.set(lockSays(ours+turnMode, noon, "-"), time.Minute)
				return f.tryKeys(proto.LockFreeScript, []string{f.key}, ours+turnMode+"-", keepMS, bad)
			},
			"ReleaseMany": func(f *fixture) (any, error) {
				f.set(lockSays(ours+turnMode, noon, "-"), time.Minute)
				return f.tryKeys(proto.LockReleaseManyScript, []string{f.key}, ours+turnMode, bad, keepMS)
			},
			"Quorum": func(f *fixture) (any, error) {
				f.set(votedFor(ours, noon, ""), time.Minute)
				return f.tryKeys(proto.RedlockReleaseScript, []string{f.key}, ours, bad, "PUBLISH", "c", keepMS)
			},
		} {
			t.Run(name+"/"+bad, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				_, err := run(f)
				require.NoError(t, err)
				floor := noon + 255
				if name == "Quorum" {
					floor = noon
				}
				require.Equal(t, released(floor), f.value())
			})
		}
	}
}

// P4: a ticket, a number or a label of another length would shift what stands behind it in the key, and no script could read it.
func TestScriptsRefuseTextsOfAnotherLength(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, row := range costRows() {
		own, err := os.ReadFile(fmt.Sprintf("%s.v%d.lua", row.script.Name, row.script.Version)) // without the parts that it includes
		require.NoError(t, err)
		for i, f := range fieldsOf(string(own), "ARGV") {
			if !strings.Contains(string(own), "#"+f.name+" ") || f.name == "used" || f.name == "floor" || row.script == proto.LockFreeScript {
				continue // not checked, or ignored
			}
			checked++
			t.Run(row.script.Name+"/"+f.name+"/"+row.crowd, func(t *testing.T) {
				t.Parallel()
				m := newMeasured(t)
				args := slices.Clone(row.args(m, 1))
				args[i] = strings.Repeat("1", 65)
				unchanged := m.unchangedKeys(func() []string { return row.keys(m, 1) })
				_, err := m.tryKeys(row.script, row.keys(m, 1), args...)
				require.ErrorContains(t, err, "bad argument")
				unchanged()
			})
		}
	}
	require.Greater(t, checked, 20)
}
