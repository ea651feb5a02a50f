// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

func TestALeaseIsRenewedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	p.set(heldBy(ours, noon, ""), time.Minute)
	p.fill()
	require.Equal(t, int64(1), p.renew(ours, time.Hour))
	p.requireLife(time.Hour)
}

func TestALookIsAnsweredWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	p.set(heldBy(theirs, noon, ""), time.Minute)
	p.fill()
	require.Positive(t, p.look(we), "without a mark, then")
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

func TestAHeldLockIsToldWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	p := newPlaceAt(t)
	p.set(heldBy(theirs, noon, ""), time.Minute)
	p.fill()
	require.Equal(t, int64(0), p.acquire(ours, we).([]any)[0], "without a mark, then")
}

// limited is the user that a test makes.
const limited = "limited"

// user makes a user with rights, and answers its client.
func (p *place) user(rights ...string) rueidis.Client {
	p.Helper()
	words := []any{"ACL", "SETUSER", limited, "on", ">secret", "resetkeys", "~sb:*", "resetchannels", "-@all", "+eval", "+evalsha"}
	for _, right := range rights {
		words = append(words, right)
	}
	p.server.MustDo(p, words...)
	return p.server.Client(p, func(o *rueidis.ClientOption) {
		o.Username, o.Password, o.DisableCache, o.ClientNoTouch = limited, "secret", true, false
		o.ClientSetInfo = rueidis.DisableClientSetInfo
	})
}

// first answers the integer that a reply begins with, or is.
func first(result rueidis.RedisResult) (int64, error) {
	if list, err := result.ToArray(); err == nil {
		return list[0].AsInt64()
	}
	return result.AsInt64()
}

// P10: a message that is refused must not turn a done release into an error.
func TestADeniedMessageDoesNotFailTheRelease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		args   func(p *place) []string
		want   int64
	}{
		"Release": {scripts.ReentrantRelease, func(p *place) []string {
			return []string{heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS}
		}, 2},
		"Force":    {scripts.HolderForce, func(p *place) []string { return []string{ours, "PUBLISH", p.channel, p.told(), keepMS} }, 1},
		"Withdraw": {scripts.ReentrantWithdraw, func(p *place) []string { return []string{ours, "PUBLISH", p.channel, keepMS} }, 1},
		"Yield": {scripts.ReentrantYield, func(p *place) []string {
			return []string{ours, fmt.Sprint(lease), digits(noon), "PUBLISH", p.channel, keepMS}
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
				client := p.user(rights...)
				call := client.B().Eval().Script(p.source(c.script)).Numkeys(1).Key(p.key).Arg(c.args(p)...).Build()
				reply, err := first(client.Do(t.Context(), call))
				require.NoError(t, err)
				require.Equal(t, c.want, reply)
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
	client := p.user("+pexpire")
	unchanged := p.untouched()
	call := client.B().Eval().Script(scripts.HolderRenew.Source).Numkeys(1).Key(p.key).Arg(ours, "3600000").Build()
	reply, err := first(client.Do(t.Context(), call))
	require.NoError(t, err)
	require.Equal(t, int64(-1), reply)
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
			client := p.user(c.rights...)
			call := client.B().Eval().Script(scripts.ReentrantRelease.Source).Numkeys(1).Key(p.key).
				Arg(heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS).Build()
			unchanged := p.untouched()
			reply, err := first(client.Do(t.Context(), call))
			if c.want == "held" {
				require.Error(t, err)
				unchanged()
				return
			}
			require.NoError(t, err)
			require.Equal(t, int64(2), reply)
			require.Empty(t, p.value())
		})
	}
}
