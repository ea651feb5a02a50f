// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// newPlaceAt is newPlace on a server of its own, which the test may change.
func newPlaceAt(tb testing.TB, options ...redistest.Option) *place {
	tb.Helper()
	p := newPlace(tb)
	if len(options) == 0 {
		p.server = serverOfOwn(tb)
		return p
	}
	p.server = redistest.Keep(redistest.Start(tb, options...))
	tb.Cleanup(p.server.Close)
	return p
}

// fill uses up the server's memory, so that it refuses every command that may take more.
func (p *place) fill() {
	p.Helper()
	p.server.MustDo(p, "CONFIG", "SET", "maxmemory", "1")
	_, err := p.server.Do("SET", "anything", "x")
	require.ErrorContains(p, err, "OOM")
}

// P10: giving back must work when nothing else does.
func TestALockIsGivenBackWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mark     string
		give     func(p *place) any
		messages []string
	}{
		"Release":         {"", func(p *place) any { return p.release(ours, noon) }, []string{}},
		"ReleaseToWaiter": {they, func(p *place) any { return p.release(ours, noon) }, []string{us}},
		"Withdraw":        {they, func(p *place) any { return p.withdraw(ours).([]any)[0] }, []string{us}},
		"Yield":           {they, func(p *place) any { return p.yield(ours, noon).([]any)[0] }, []string{us}},
		"Force":           {they, func(p *place) any { return p.force(ours) }, []string{us}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceAt(t)
			p.set(heldBy(ours, noon, c.mark), time.Minute)
			listener := p.listen()
			p.fill()
			require.Contains(t, []any{int64(1), int64(2)}, c.give(p))
			require.Equal(t, "sb1-", p.value()[:4], "the floor is kept")
			require.Equal(t, c.messages, listener.heard())
		})
	}
}

func TestAnAcquireWritesNothingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"Free": "", "Released": released(noon)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceAt(t)
			if value != "" {
				p.set(value, time.Minute)
			}
			p.fill()
			unchanged := p.untouched()
			_, err := p.try(scripts.ReentrantAcquire, claimOf(ours), lease, digits(noon), we)
			require.ErrorContains(t, err, "OOM")
			unchanged()
		})
	}
}

// limited is the user that a test makes.
const limited = "limited"

// as returns the place as a user finds it that has these rights alone. The server must be the test's own.
func (p *place) as(rights ...string) *place {
	p.Helper()
	words := []any{"ACL", "SETUSER", limited, "reset", "on", ">secret", "~sb:*", "-@all", "+eval", "+evalsha"}
	for _, right := range rights {
		words = append(words, right)
	}
	p.server.MustDo(p, words...)
	q := *p
	q.server = redistest.KeepAs(p.server.Server, limited, "secret")
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
func TestADeniedMessageDoesNotFailTheRelease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		args   func(p *place) []any
		want   int64
	}{
		"Release": {scripts.ReentrantRelease, func(p *place) []any {
			return []any{heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS}
		}, 2},
		"Force":    {scripts.HolderForce, func(p *place) []any { return []any{ours, "PUBLISH", p.channel, p.told(), keepMS} }, 1},
		"Withdraw": {scripts.ReentrantWithdraw, func(p *place) []any { return []any{ours, "PUBLISH", p.channel, keepMS} }, 1},
		"Yield": {scripts.ReentrantYield, func(p *place) []any {
			return []any{ours, lease, digits(noon), "PUBLISH", p.channel, keepMS}
		}, 2},
	} {
		for denied, rights := range map[string][]string{
			"Command": {"+time", "+get", "+set", "+del"},
			"Channel": {"+time", "+get", "+set", "+del", "+publish"},
		} {
			t.Run(name+"/"+denied, func(t *testing.T) {
				t.Parallel()
				p := newPlaceAt(t)
				p.set(heldBy(ours, noon, they), time.Minute)
				require.Equal(t, c.want, first(p.as(rights...).run(c.script, c.args(p)...)))
				require.Equal(t, "sb1-", p.value()[:4])
			})
		}
	}
}

// A right that is missing says nothing of the hold: it must not be taken for lost.
func TestARenewalThatIsDeniedDoesNotSayThatTheHoldIsGone(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	p.set(heldBy(ours, noon, ""), time.Minute)
	unchanged := p.untouched()
	require.Equal(t, int64(-1), p.as("+pexpire").run(scripts.HolderRenew, ours, 3600000))
	unchanged()
}

// What cannot be undone comes first: a release without the right to it changes nothing, and one
// without the right to what follows is done.
func TestARightThatIsMissingLeavesNoReleaseHalfDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rights []string
		want   string
	}{
		"Delete": {[]string{"+time", "+get", "+set", "+publish"}, "held"},
		"Floor":  {[]string{"+time", "+get", "+del", "+publish"}, "free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceAt(t)
			p.set(heldBy(ours, noon, they), time.Minute)
			unchanged := p.untouched()
			reply, err := p.as(c.rights...).try(scripts.ReentrantRelease, heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS)
			if c.want == "held" {
				require.Error(t, err)
				unchanged()
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(2), first(reply))
			require.Empty(t, p.value())
		})
	}
}

// P2, P10: a held lock is renewed and reported when memory is full, then without a mark.
func TestAHeldLockWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	p.set(heldBy(ours, noon, ""), time.Minute)
	p.fill()
	require.Positive(t, p.look(they))
	require.Equal(t, int64(0), p.acquire(theirs, they).([]any)[0])
	require.Equal(t, int64(1), p.renew(ours, time.Hour))
	p.requireLife(time.Hour)
}
