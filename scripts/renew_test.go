// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func (f *fixture) renew(hold string, ttl time.Duration) int64 {
	f.Helper()
	return f.run(scripts.HolderRenew, hold, ttl.Milliseconds()).(int64)
}

func TestARenewalLengthensTheLifeAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, mark := range map[string]string{"Unmarked": "", "Marked": they} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.set(votedFor(ours, noon, mark), 30*time.Second)
			require.Equal(t, int64(1), f.renew(ours, time.Hour))
			f.requireLife(time.Hour)
			require.Equal(t, int64(1), f.renew(ours, time.Hour), "sent twice")
			require.Equal(t, votedFor(ours, noon, mark)+"\n3600000", f.value(), "it says how long it may last")
		})
	}
}

func TestAQuestionChangesNoLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set(votedFor(ours, noon, ""), time.Minute)
	unchanged := f.untouched()
	require.Equal(t, int64(1), f.renew(ours, 0))
	require.Equal(t, int64(0), f.renew(theirs, 0))
	unchanged()
	f.server.MustDo(t, "DEL", f.key)
	require.Equal(t, int64(0), f.renew(ours, 0))
}

func TestARenewalServesEveryKindOfLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.set("sb1x"+digits(noon)+ours, 30*time.Second)
	require.Equal(t, int64(1), f.renew(ours, time.Hour))
}

func TestOneBadKeySpoilsNoRenewal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keys, args := make([]string, 200), []any{}
	want := make([]any, len(keys))
	for i := range keys {
		keys[i] = fmt.Sprintf("%s%d", f.key, i)
		args = append(args, ours, time.Hour.Milliseconds())
		switch i % 4 {
		case 0, 1:
			f.server.MustDo(t, "SET", keys[i], votedFor(ours, noon, ""), "PX", 30_000)
			want[i] = int64(1)
		case 2:
			f.server.MustDo(t, "RPUSH", keys[i], "x")
			want[i] = int64(0)
		default:
			want[i] = int64(0)
		}
	}
	alive, err := f.tryKeys(scripts.HolderRenew, keys, args...)
	require.NoError(t, err)
	require.Equal(t, want, alive)
}

func TestARenewalGivesEachKeyItsOwnLife(t *testing.T) {
	t.Parallel()
	a, b := newFixture(t), newFixture(t)
	b.key += "b"
	a.set(votedFor(ours, noon, ""), 30*time.Second)
	b.set(votedFor(theirs, noon, ""), 30*time.Second)
	alive, err := a.tryKeys(scripts.HolderRenew, []string{a.key, b.key}, ours, 3_600_000, theirs, 7_200_000)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1)}, alive)
	a.requireLife(time.Hour)
	b.requireLife(2 * time.Hour)
}

// P1: a lease that is not a number is refused for its key alone. A negative one would delete the key of a hold.
func TestARenewalRefusesALeaseThatIsNoNumber(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Exclusive": "sb1l" + digits(noon) + ours + turnMode + "-" + label,
		"Marked":    "sb1l" + digits(noon) + ours + turnMode + "q" + label,
		"Quorum":    votedFor(ours, noon, ""),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, other := newFixture(t), newFixture(t)
			other.key += "b"
			hold := ours
			if name != "Quorum" {
				hold += turnMode
			}
			f.set(value, 30*time.Second)
			unchanged := f.untouched()
			for _, ttl := range []string{"-1", "-9223372036854775808", "1.5", "1e3", "x", "", " 1"} {
				other.set(value, 30*time.Second)
				alive, err := f.tryKeys(scripts.HolderRenew, []string{f.key, other.key}, hold, ttl, hold, "3600000")
				require.NoError(t, err)
				require.Equal(t, []any{int64(-8), int64(1)}, alive, "%q", ttl)
				unchanged()
			}
			require.Positive(t, other.server.MustDo(t, "PTTL", other.key))
		})
	}
}
