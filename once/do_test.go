// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

// A function that panics or ends its goroutine releases the claim, and stores nothing.
func TestAPanicContinuesAndReleases(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	require.PanicsWithValue(t, "broken", func() {
		_, _, _ = once.New(s, "a").Do(t.Context(), func(context.Context, signalbox.Lease) ([]byte, error) { panic("broken") })
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _, _ = once.New(s, "a").Do(t.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
			runtime.Goexit()
			return nil, nil
		})
	}()
	redistest.Receive(t, "the end", ended)
	requireRan(t, "x", do(t.Context(), once.New(s, "a"), returns("x")))
}

// A value may be empty, any bytes, and large; one that is too large is not stored.
func TestValuesOfEverySize(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := session(t, server), session(t, server)
	for name, value := range map[string]string{
		"empty": "", "zeros": "\x00\x00", "digits": "0", "largest": strings.Repeat("\xff", once.MaxValue),
	} {
		requireRan(t, value, do(t.Context(), once.New(s, name), returns(value)))
		requireStored(t, value, do(t.Context(), once.New(other, name), never(t)))
	}
	nothing := do(t.Context(), once.New(s, "nil"), fails(nil))
	require.Equal(t, got{isNil: true, ran: true}, nothing)
	requireStored(t, "", do(t.Context(), once.New(other, "nil"), never(t)))

	large := strings.Repeat("x", once.MaxValue+1)
	r := do(t.Context(), once.New(s, "a"), returns(large))
	require.ErrorIs(t, r.err, signalbox.ErrTooLarge)
	require.True(t, r.ran)
	require.Equal(t, large, r.value)
	requireRan(t, "x", do(t.Context(), once.New(other, "a"), returns("x")))
}

// Callers share no memory: what one does to its value, others do not see.
func TestEveryCallerHasAValueOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	g := newGate("x")
	running := make(chan []byte, 1)
	go func() {
		value, _, _ := once.New(s, "a").Do(t.Context(), g.run)
		value[0] = 'y'
		running <- value
	}()
	<-g.begun
	waiting := later(t.Context(), once.New(s, "a"), never(t))
	close(g.open)
	requireStored(t, "x", receive(t, waiting))
	require.Equal(t, "y", string(redistest.Receive(t, "the value", running)))
}

// Forget deletes the outcome, for all sessions; it does not stop a run.
func TestForgetLetsTheNextCallRun(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := once.New(session(t, server), "a"), once.New(session(t, server), "a")
	require.NoError(t, one.Forget(t.Context()))
	requireRan(t, "x", do(t.Context(), one, returns("x")))
	require.NoError(t, other.Forget(t.Context()))
	_, stored, err := one.Get(t.Context())
	require.NoError(t, err)
	require.False(t, stored)
	g := newGate("y")
	running := later(t.Context(), one, g.run)
	<-g.begun
	require.NoError(t, other.Forget(t.Context()))
	close(g.open)
	requireRan(t, "y", receive(t, running))
	requireStored(t, "y", do(t.Context(), other, never(t)))
}

// Each tick of a schedule is a key of its own, the same in every time zone.
func TestAtIsAKeyForEachTick(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := once.New(session(t, server), "a"), once.New(session(t, server), "a")
	tick := time.Date(2026, time.November, 22, 2, 30, 0, 0, time.UTC)
	requireRan(t, "x", do(t.Context(), one.At(tick), returns("x")))
	requireStored(t, "x", do(t.Context(), other.At(tick.In(time.FixedZone("there", 3600))), never(t)))
	requireRan(t, "y", do(t.Context(), other.At(tick.Add(time.Nanosecond)), returns("y")))
	require.Contains(t, server.Keys("*"), "sb:{a@2026-11-22T02:30:00Z}:once")
	requireRan(t, "z", do(t.Context(), one, returns("z")))
	require.ErrorIs(t, one.At(time.Time{}).Check(), signalbox.ErrBadOption)
	longest := once.New(session(t, server), strings.Repeat("x", 512))
	require.NoError(t, longest.Check())
	require.ErrorIs(t, longest.At(tick).Check(), signalbox.ErrBadName)
}

// The outcome lives for as long as Keep says, and the claim ends with the call.
func TestKeepIsTheLifeOfTheOutcome(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		want    time.Duration
	}{
		"default": {nil, once.DefaultKeep},
		"hour":    {[]signalbox.LockOption{once.Keep(time.Hour)}, time.Hour},
		"last":    {[]signalbox.LockOption{once.Keep(time.Minute), once.Keep(time.Hour)}, time.Hour},
	} {
		requireRan(t, "x", do(t.Context(), once.New(s, name, c.options...), returns("x")))
		left := time.Duration(locktest.Integer(t, server.MustDo(t, "PTTL", locktest.Keys(name).Outcome()))) * time.Millisecond
		require.LessOrEqual(t, left, c.want)
		require.Greater(t, left, c.want-redistest.Patience)
	}
}

// P9: the databases of a server share channels. Outcomes that are stored for the key in another one cost a waiter a question each, and
// not its ticket.
func TestOutcomesInAnotherDatabaseKeepTheQueuesOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease, err := fairLock(session(t, server), "a")(t.Context())
	require.NoError(t, err)
	first := later(t.Context(), once.New(session(t, server), "a"), returns("x"))
	redistest.Await(t, "a listener", func() bool { return locktest.Listeners(t, server, key+":stored") == 1 })
	awaitTickets(t, server, 1)
	second := locktest.LaterWith(t.Context(), fairLock(session(t, server), "a"))
	awaitTickets(t, server, 2)
	tickets := func() any { return server.MustDo(t, "ZRANGE", "sb:{a}:queue", "0", "-1") }
	before := tickets()
	for range 20 {
		calls := server.CommandStats()["evalsha"].Calls
		server.MustDo(t, "PUBLISH", key+":stored", "1780000000000000")
		redistest.Await(t, "a call of the waiter", func() bool { return server.CommandStats()["evalsha"].Calls > calls })
	}
	require.Equal(t, before, tickets())
	require.NoError(t, lease.Unlock())
	requireRan(t, "x", receive(t, first))
	require.NoError(t, locktest.MustHave(t, second).Unlock())
}

// P1: TryDo waits for no other call. Whoever has the key, it says so at once, and it returns an outcome if there is one.
func TestTryDoWaitsForNoOtherCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := session(t, server), session(t, server)
	try := func(s *signalbox.Session, fn once.Func) got {
		value, ran, err := once.New(s, "a").TryDo(t.Context(), fn)
		return got{string(value), value == nil, ran, err}
	}
	failed := errors.New("broken")
	require.Equal(t, got{isNil: true, ran: true, err: failed}, try(one, fails(failed)))
	_, err := once.New(one, "a").Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)

	g := newGate("x")
	running := later(t.Context(), once.New(one, "a"), g.run)
	lease := redistest.Receive(t, "the run", g.begun)
	for _, s := range []*signalbox.Session{one, other} {
		require.ErrorIs(t, try(s, never(t)).err, signalbox.ErrHeld)
		holder, err := once.New(s, "a").Holder(t.Context())
		require.NoError(t, err)
		require.Equal(t, lease.Token(), holder.Token)
	}
	close(g.open)
	requireRan(t, "x", receive(t, running))
	for _, s := range []*signalbox.Session{one, other} {
		requireStored(t, "x", try(s, never(t)))
		require.Zero(t, once.Flights(s))
	}
	require.NoError(t, once.New(one, "a").Forget(t.Context()))
	requireRan(t, "y", try(other, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
		_, _, err := once.New(other, "a").TryDo(ctx, never(t))
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return []byte("y"), nil
	}))
	locktest.RequireEnds(t, server)
}

// An ended context, a nil one and a nil function run nothing and send nothing.
func TestBadArgumentsSendNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := once.New(session(t, server), "a")
	require.Empty(t, server.SentBy(func() {
		for ctx, want := range map[context.Context]error{locktest.Ended(): context.Canceled, nil: signalbox.ErrBadOption} {
			require.ErrorIs(t, do(ctx, o, never(t)).err, want)
			value, stored, err := o.Get(ctx)
			require.Nil(t, value)
			require.False(t, stored)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, o.Forget(ctx), want)
		}
		require.ErrorIs(t, do(t.Context(), o, nil).err, signalbox.ErrBadOption)
	}))
}

// P7: a stored outcome costs one round trip, and no lock; see the package.
func TestWhatCallsCost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	s := session(t, proxy)
	o := once.New(s, "a", signalbox.WithFirstLease(time.Minute), signalbox.WithRenewedLease(time.Minute)) // nothing is renewed meanwhile
	_, _, err := o.Get(t.Context())                                                                       // the client connects
	require.NoError(t, err)
	require.NoError(t, locktest.Must(t, fairLock(s, "warm")).Unlock()) // the session asks for the time
	costs := func(want int, do func()) {
		t.Helper()
		proxy.ResetCount()
		do()
		require.Equal(t, want, proxy.Requests())
	}
	costs(5, func() { requireRan(t, "x", do(t.Context(), o, returns("x"))) })
	costs(1, func() { requireStored(t, "x", do(t.Context(), o, never(t))) })
	costs(1, func() { _, _, _ = o.Get(t.Context()) })
	costs(2, func() { require.NoError(t, o.Forget(t.Context())) })
	costs(1, func() { require.NoError(t, o.Forget(t.Context())) })
	requireRan(t, "y", do(t.Context(), o, returns("y")))
	calls := server.CommandStats()["set"].Calls
	requireStored(t, "y", do(t.Context(), o, never(t)))
	require.Equal(t, calls, server.CommandStats()["set"].Calls, "no lock")
}

// P9: a key that is no outcome's is reported, before a function runs and behind it, and left as it is.
func TestAForeignKeyIsUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := once.New(session(t, server), "a")
	for _, foreign := range []string{"SET", "RPUSH"} {
		r := do(t.Context(), o, func(context.Context, signalbox.Lease) ([]byte, error) {
			server.MustDo(t, foreign, key, "foreign")
			return []byte("x"), nil
		})
		require.ErrorIs(t, r.err, signalbox.ErrWrongKind)
		before := server.MustDo(t, "DUMP", key)
		require.ErrorIs(t, do(t.Context(), o, never(t)).err, signalbox.ErrWrongKind)
		_, _, err := o.Get(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorIs(t, o.Forget(t.Context()), signalbox.ErrWrongKind)
		require.Equal(t, before, server.MustDo(t, "DUMP", key))
		server.MustDo(t, "DEL", key)
	}
}

// P4: calls that fail, give up or panic leave nothing behind in the session.
func TestNothingRemainsOfCallsThatFailed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	g := newGate("")
	g.err = errors.New("broken")
	running := later(t.Context(), once.New(s, "a"), g.run)
	<-g.begun
	ctx, cancel := context.WithCancel(t.Context())
	waiting := later(ctx, once.New(s, "a"), never(t))
	redistest.Await(t, "the call to wait", func() bool { return once.Flights(s) == 1 })
	cancel()
	require.ErrorIs(t, receive(t, waiting).err, context.Canceled)
	close(g.open)
	require.ErrorIs(t, receive(t, running).err, g.err)
	require.Panics(t, func() {
		_, _, _ = once.New(s, "a").Do(t.Context(), func(context.Context, signalbox.Lease) ([]byte, error) { panic("broken") })
	})
	require.Zero(t, once.Flights(s))
	// The cancelled call is undone in the background, and its listener closes after that.
	redistest.Await(t, "nothing to be left", func() bool { return locktest.Channels(s)+locktest.Undoing(s) == 0 })
}
