// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// newFixtureAt is newPlace on a server of its own, which the test may change.
func newFixtureAt(tb testing.TB, options ...redistest.Option) *fixture {
	tb.Helper()
	f := newFixture(tb)
	if len(options) == 0 {
		f.server = serverOfOwn(tb)
		return f
	}
	f.server = redistest.Pool(redistest.Start(tb, options...))
	tb.Cleanup(f.server.Close)
	return f
}

// fill uses up the server's memory, so that it refuses every command that may take more.
func (f *fixture) fill() {
	f.Helper()
	f.server.MustDo(f, "CONFIG", "SET", "maxmemory", "1")
	_, err := f.server.Do("SET", "anything", "x")
	require.ErrorContains(f, err, "OOM")
}

// P10: a vote is taken by force, and released, when nothing else works.
func TestAForcedVoteWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	f.set(votedFor(ours, noon, they), time.Minute)
	listener := f.listen()
	f.fill()
	require.Equal(t, int64(1), f.force(ours))
	require.Equal(t, released(noon), f.value())
	require.Equal(t, []string{us}, listener.received())
}

// limited is the user that a test makes.
const limited = "limited"

// as returns the fixture as a user finds it that has these rights alone. The server must be the test's own. Before Redis
// 7.0 scripts read the end of a key by PTTL before they set a later one.
func (f *fixture) as(rights ...string) *fixture {
	f.Helper()
	words := []any{"ACL", "SETUSER", limited, "reset", "on", ">secret", "~sb:*", "-@all", "+eval", "+evalsha"}
	old := redistest.IsOld(f)
	for _, right := range rights {
		switch {
		case !old:
		case right == "+pexpire":
			words = append(words, "+pttl")
		case strings.HasSuffix(right, "pexpiretime"), strings.HasSuffix(right, "spublish"):
			continue
		}
		words = append(words, right)
		if f.isTimed && strings.HasSuffix(right, "pexpire") {
			words = append(words, right+"at") // see redistest.Timed
			if !old {
				words = append(words, "+pexpiretime")
			}
		}
	}
	f.server.MustDo(f, words...)
	q := *f
	q.server = redistest.PoolAs(f.server.Server, limited, "secret")
	f.Cleanup(q.server.Close)
	return &q
}

// first returns what a reply begins with, or is.
func first(reply any) any {
	if list, isList := reply.([]any); isList {
		return list[0]
	}
	return reply
}

// P10: a message that is refused must not turn a done release into an error.
func TestADeniedMessageDoesNotFailTheForce(t *testing.T) {
	t.Parallel()
	for denied, rights := range map[string][]string{
		"Command": {"+time", "+get", "+set", "+del"},
		"Channel": {"+time", "+get", "+set", "+del", "+publish"},
	} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			f.set(votedFor(ours, noon, they), time.Minute)
			require.Equal(t, int64(1), f.as(rights...).run(scripts.HolderForce, ours, "PUBLISH", f.channel, f.notified(), keepMS))
			require.Equal(t, "sb1-", f.value()[:4])
		})
	}
}

// A right that is missing says nothing of the hold: it must not be taken for lost.
func TestARenewalThatIsDeniedDoesNotSayThatTheHoldIsGone(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	f.set(votedFor(ours, noon, ""), time.Minute)
	unchanged := f.untouched()
	require.Equal(t, int64(-8), f.as("+pexpire").run(scripts.HolderRenew, ours, 3600000))
	unchanged()
}

// What cannot be undone comes first: a force without the right to it changes nothing, and one
// without the right to what follows is done.
func TestARightThatIsMissingLeavesNoForceHalfDone(t *testing.T) {
	t.Parallel()
	for name, rights := range map[string][]string{
		"Delete": {"+time", "+get", "+set", "+publish"},
		"Floor":  {"+time", "+get", "+del", "+publish"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			f.set(votedFor(ours, noon, they), time.Minute)
			unchanged := f.untouched()
			reply, err := f.as(rights...).try(scripts.HolderForce, ours, "PUBLISH", f.channel, f.notified(), keepMS)
			if name == "Delete" {
				requireDenied(t, err)
				unchanged()
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(1), first(reply))
			require.Empty(t, f.value())
		})
	}
}

// P2, P10: a held vote is renewed when memory is full.
func TestAHeldVoteIsRenewedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	f.set(votedFor(ours, noon, ""), time.Minute)
	f.fill()
	require.Equal(t, int64(1), f.renew(ours, time.Hour))
	f.requireLife(time.Hour)
}
