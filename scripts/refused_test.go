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
	p := newFixture(tb)
	if len(options) == 0 {
		p.server = serverOfOwn(tb)
		return p
	}
	p.server = redistest.Pool(redistest.Start(tb, options...))
	tb.Cleanup(p.server.Close)
	return p
}

// fill uses up the server's memory, so that it refuses every command that may take more.
func (p *fixture) fill() {
	p.Helper()
	p.server.MustDo(p, "CONFIG", "SET", "maxmemory", "1")
	_, err := p.server.Do("SET", "anything", "x")
	require.ErrorContains(p, err, "OOM")
}

// P10: a vote is taken by force, and released, when nothing else works.
func TestAForcedVoteWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	p.set(votedFor(ours, noon, they), time.Minute)
	listener := p.listen()
	p.fill()
	require.Equal(t, int64(1), p.force(ours))
	require.Equal(t, released(noon), p.value())
	require.Equal(t, []string{us}, listener.received())
}

// limited is the user that a test makes.
const limited = "limited"

// as returns the fixture as a user finds it that has these rights alone. The server must be the test's own. Before Redis
// 7.0 scripts read the end of a key by PTTL before they set a later one.
func (p *fixture) as(rights ...string) *fixture {
	p.Helper()
	words := []any{"ACL", "SETUSER", limited, "reset", "on", ">secret", "~sb:*", "-@all", "+eval", "+evalsha"}
	old := redistest.IsOld(p)
	for _, right := range rights {
		switch {
		case !old:
		case right == "+pexpire":
			words = append(words, "+pttl")
		case strings.HasSuffix(right, "pexpiretime"), strings.HasSuffix(right, "spublish"):
			continue
		}
		words = append(words, right)
		if p.isTimed && strings.HasSuffix(right, "pexpire") {
			words = append(words, right+"at") // see timed
			if !old {
				words = append(words, "+pexpiretime")
			}
		}
	}
	p.server.MustDo(p, words...)
	q := *p
	q.server = redistest.PoolAs(p.server.Server, limited, "secret")
	p.Cleanup(q.server.Close)
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
			p := newFixtureAt(t)
			p.set(votedFor(ours, noon, they), time.Minute)
			require.Equal(t, int64(1), p.as(rights...).run(scripts.HolderForce, ours, "PUBLISH", p.channel, p.notified(), keepMS))
			require.Equal(t, "sb1-", p.value()[:4])
		})
	}
}

// A right that is missing says nothing of the hold: it must not be taken for lost.
func TestARenewalThatIsDeniedDoesNotSayThatTheHoldIsGone(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	p.set(votedFor(ours, noon, ""), time.Minute)
	unchanged := p.untouched()
	require.Equal(t, int64(-8), p.as("+pexpire").run(scripts.HolderRenew, ours, 3600000))
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
			p := newFixtureAt(t)
			p.set(votedFor(ours, noon, they), time.Minute)
			unchanged := p.untouched()
			reply, err := p.as(rights...).try(scripts.HolderForce, ours, "PUBLISH", p.channel, p.notified(), keepMS)
			if name == "Delete" {
				requireDenied(t, err)
				unchanged()
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(1), first(reply))
			require.Empty(t, p.value())
		})
	}
}

// P2, P10: a held vote is renewed when memory is full.
func TestAHeldVoteIsRenewedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	p.set(votedFor(ours, noon, ""), time.Minute)
	p.fill()
	require.Equal(t, int64(1), p.renew(ours, time.Hour))
	p.requireLife(time.Hour)
}
