// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func TestHoldersAndWaitersOfEachKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := locktest.SteadySession(t, server, signalbox.WithLabel("one"))
	two := locktest.SteadySession(t, server, signalbox.WithLabel("two"))

	for kind, lock := range map[string]func(s *signalbox.Session) func(context.Context) (signalbox.Lease, error){
		inspect.Reentrant: func(s *signalbox.Session) func(context.Context) (signalbox.Lease, error) {
			return reentrant.New(s, inspect.Reentrant).Lock
		},
		inspect.Fair: func(s *signalbox.Session) func(context.Context) (signalbox.Lease, error) {
			return fair.New(s, inspect.Fair).Lock
		},
		inspect.RWLock: func(s *signalbox.Session) func(context.Context) (signalbox.Lease, error) {
			return rwlock.New(s, inspect.RWLock).Lock
		},
	} {
		held := locktest.Must(t, lock(one))
		e := only(t, two, kind)
		require.Equal(t, kind, e.Kind)
		require.Equal(t, held.Token(), e.Token)
		require.Zero(t, e.WaiterCount)
		waits := waiting(t, two, kind, 1, lock(two))
		e = only(t, two, kind)
		require.Equal(t, 1, e.HolderCount)
		require.Equal(t, "one", e.Holders[0].Label)
		require.Equal(t, one.ID(), e.Holders[0].Session)
		require.Equal(t, held.Token(), e.Holders[0].Token)
		require.False(t, e.Holders[0].Shared)
		require.True(t, e.Since.Before(e.Until))
		require.Equal(t, 1, e.WaiterCount)
		require.Equal(t, "two", e.Waiters[0].Label)
		require.Equal(t, two.ID(), e.Waiters[0].Session)
		require.True(t, e.Waiters[0].Alive)
		require.False(t, e.Waiters[0].Since.Before(e.Since))
		require.NoError(t, held.Unlock())
		unlocked(t, waits)
		require.Empty(t, all(t, two, kind), "the floor of its tokens is not in use")
	}
}

func TestReadersAndAWriterThatWaits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	first, second := locktest.Must(t, rwlock.New(a, "x").RLock), locktest.Must(t, rwlock.New(b, "x").RLock)
	writes := waiting(t, a, "x", 1, rwlock.New(a, "x").Lock)
	reads := waiting(t, a, "x", 2, rwlock.New(b, "x", signalbox.WithFixedLease(time.Minute)).RLock)
	e := only(t, a, "x")
	require.Equal(t, inspect.RWLock, e.Kind)
	require.Equal(t, 2, e.HolderCount)
	require.True(t, e.Holders[0].Shared && e.Holders[1].Shared)
	require.Zero(t, e.Token, "the server keeps no token of a reader")
	require.Equal(t, []bool{false, true}, []bool{e.Waiters[0].Shared, e.Waiters[1].Shared}, "in the order in which they came")
	require.NoError(t, first.Unlock())
	require.NoError(t, second.Unlock())
	unlocked(t, writes)
	unlocked(t, reads)
}

func TestPermitsRoundsValuesAndOutcomes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)

	sem := semaphore.New(s, "s", 5)
	permits, err := sem.Acquire(locktest.Context(t), 3)
	require.NoError(t, err)
	more := waiting(t, s, "s", 1, func(ctx context.Context) (signalbox.Lease, error) {
		return semaphore.New(other, "s", 5).Acquire(ctx, 4)
	})
	e := only(t, s, "s")
	require.Equal(t, []any{inspect.Semaphore, 5, 3, 1, 3, 4}, []any{e.Kind, e.Capacity, e.Held, e.HolderCount, e.Holders[0].Permits, e.Waiters[0].Permits})
	require.Equal(t, s.ID(), e.Holders[0].Session)
	require.NoError(t, permits.Unlock())
	unlocked(t, more)
	require.Empty(t, all(t, s, "s"), "no session has permits")

	round, err := countdown.New(s, "c").Start(locktest.Context(t), 3)
	require.NoError(t, err)
	_, err = round.CountDown(locktest.Context(t), "an id")
	require.NoError(t, err)
	e = only(t, s, "c")
	require.Equal(t, []any{inspect.Countdown, 3, 2}, []any{e.Kind, e.Total, e.Left})
	require.NotZero(t, e.Since)
	require.NoError(t, countdown.New(s, "c").Reset(locktest.Context(t)))
	require.Empty(t, all(t, s, "c"), "no round counts")

	term, err := election.New(s, "e", election.Value("10.0.0.1")).Campaign(locktest.Context(t))
	require.NoError(t, err)
	redistest.Await(t, "the value", func() bool {
		entries, err := inspect.Name(t.Context(), s, "e")
		return err == nil && len(entries) == 1 && entries[0].Kind == inspect.Election
	})
	e = only(t, s, "e")
	require.Equal(t, []any{"10.0.0.1", term.Token()}, []any{e.Value, e.Token})
	require.NoError(t, term.Resign())

	_, ran, err := once.New(s, "o", once.Keep(time.Hour)).Do(locktest.Context(t), func(context.Context, signalbox.Lease) ([]byte, error) {
		return []byte("done"), nil
	})
	require.NoError(t, err)
	require.True(t, ran)
	entries, err := inspect.Name(locktest.Context(t), s, "o")
	require.NoError(t, err)
	require.Equal(t, []string{"o " + inspect.Once}, kinds(entries))
	require.InDelta(t, time.Hour, entries[0].Until.Sub(entries[0].Since), float64(10*time.Minute))
	require.NotZero(t, entries[0].Token)

	// A name that is a lock and a semaphore has an entry for each.
	held := locktest.Must(t, reentrant.New(s, "s").Lock)
	permits, err = sem.Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.Equal(t, []string{"o once", "s reentrant", "s semaphore"}, kinds(all(t, s, "")))
	require.NoError(t, held.Unlock())
	require.NoError(t, permits.Unlock())
}

func TestAPartOfAQuorum(t *testing.T) {
	t.Parallel()
	var sessions []*signalbox.Session
	for range 3 {
		server := redistest.Start(t)
		require.NoError(t, locktest.Establish(server))
		sessions = append(sessions, locktest.SteadySession(t, server))
	}
	lease := locktest.Must(t, redlock.New(sessions, "q").Lock)
	for _, s := range sessions {
		redistest.Await(t, "the vote of each server", func() bool { return len(all(t, s, "q")) == 1 })
		e := only(t, s, "q")
		require.Equal(t, inspect.Redlock, e.Kind)
		require.Equal(t, s.ID(), e.Holders[0].Session)
	}
	for _, s := range sessions[:2] { // a majority
		require.NoError(t, inspect.Break(locktest.Context(t), s, "q"))
		require.Empty(t, all(t, s, ""))
	}
	redistest.Receive(t, "the loss", lease.Done())
}

func TestNamesAreDecoded(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	strange := []string{"order/{42}", "order/\x1b[2J", "order/%41", "order/\xff\xfe", "order/ü", "order/*?[a]\\", "order/\u0085"}
	for _, name := range append(strange, "other") {
		lease := locktest.Must(t, reentrant.New(s, name).Lock)
		defer lease.Unlock()
	}
	found := make(map[string]bool)
	for _, e := range all(t, s, "order/") {
		require.False(t, e.Raw || e.Hashed)
		found[e.Name] = true
	}
	require.Len(t, found, len(strange))
	for _, name := range strange {
		require.True(t, found[name], "%q", name)
		only(t, s, name)
	}
	require.Len(t, all(t, s, "order/\xc3"), 1, "half of a character")
	require.Len(t, all(t, s, "order/*"), 1, "a star is a star")

	text, err := json.Marshal(only(t, s, "order/\x1b[2J"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"name":"order/\u001b[2J","key":"sb:{order/%1B[2J}:lock","kind":"reentrant"`)
}

// JSON has no time after the year 9999. A key that another program lets end later is listed as one without an end, beside all others.
func TestAKeyThatEndsTooLateForJSONIsListed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for _, name := range []string{"late", "other"} {
		lease := locktest.Must(t, reentrant.New(s, name).Lock)
		defer lease.Unlock()
	}
	server.MustDo(t, "PEXPIREAT", locktest.Key("late"), "4611686018427387904")
	_, err := json.Marshal(all(t, s, ""))
	require.NoError(t, err)
	require.Zero(t, all(t, s, "late")[0].Until)
	require.NotZero(t, all(t, s, "other")[0].Until)
}

func TestHashedNamesAndForeignKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plain := locktest.SteadySession(t, server)
	hashed := locktest.SteadySession(t, server, signalbox.WithHashedNames())
	lease := locktest.Must(t, reentrant.New(hashed, "secret").Lock)
	defer lease.Unlock()
	held := locktest.Must(t, reentrant.New(plain, "plain").Lock)
	defer held.Unlock()

	for _, s := range []*signalbox.Session{plain, hashed} {
		entries := all(t, s, "")
		require.Equal(t, []string{proto.Hash("secret") + " reentrant", "plain reentrant"}, kinds(entries))
		require.True(t, entries[0].Hashed)
	}
	require.Empty(t, all(t, plain, "s"), "what a digest stands for is not known")
	_, failures := listed(t, hashed, "s")
	require.Len(t, failures, 1)
	require.ErrorIs(t, failures[0], signalbox.ErrBadOption)
	entries, err := inspect.Name(locktest.Context(t), hashed, "secret")
	require.NoError(t, err)
	require.Equal(t, proto.Hash("secret"), entries[0].Name)

	// Other programs' keys: in the place of a lock's they are marked, elsewhere they are left out.
	server.MustDo(t, "SET", "sb:{z-text}:lock", "hello")
	server.MustDo(t, "RPUSH", "sb:{z-list}:lock", "hello")
	server.MustDo(t, "SET", "sb:{z-latch}:latch", "hello")
	server.MustDo(t, "SET", "sb:{z-permits}:permits", "hello")
	server.MustDo(t, "HSET", "sb:{z-once}:once", "a", "b")
	server.MustDo(t, "SET", "sb:{z-other}:other", "hello")
	server.MustDo(t, "SET", "sb:{z", "hello")
	server.MustDo(t, "SET", "sb:{z"+strings.Repeat("z", proto.MaxKeyBytes)+"}:lock", "hello") // longer than any name: lists would keep it
	server.MustDo(t, "SET", "sb:{%zz}:lock", "hello")
	entries = all(t, plain, "z")
	require.Equal(t, []string{"z-latch foreign", "z-list foreign", "z-once foreign", "z-permits foreign", "z-text foreign"}, kinds(entries))
	entries = slices.DeleteFunc(all(t, plain, ""), func(e inspect.Entry) bool { return !e.Raw })
	require.Equal(t, []string{"%zz foreign"}, kinds(entries))
	require.ErrorIs(t, inspect.Break(locktest.Context(t), plain, "z-text"), signalbox.ErrWrongKind)
}

func TestBadArgumentsOfInspect(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	_, err := inspect.Name(locktest.Context(t), s, "")
	require.ErrorIs(t, err, signalbox.ErrBadName)
	_, err = inspect.Name(nil, s, "x") //nolint:staticcheck // what a nil context does
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	_, err = inspect.Name(locktest.Context(t), nil, "x")
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "x"), signalbox.ErrNotHeld)
	_, err = inspect.Name(locktest.Ended(), s, "x")
	require.ErrorIs(t, err, context.Canceled)
	for ctx, s := range map[context.Context]*signalbox.Session{nil: s, locktest.Context(t): nil, locktest.Ended(): s} {
		n := 0
		for _, err := range inspect.Names(ctx, s, "") {
			require.Error(t, err)
			n++
		}
		require.Equal(t, 1, n)
	}
	server.Kill()
	_, failures := listed(t, s, "")
	require.Len(t, failures, 1)
}

// javaTakes acquires permits as the Java client does: the ids are random, and the number is less by as many.
const javaTakes = `
for i = 1, ARGV[1] do
  redis.call('ZADD', KEYS[2], ARGV[2], string.format('java%012d', i))
end
redis.call('SETNX', KEYS[1], ARGV[3])
redis.call('DECRBY', KEYS[1], ARGV[1])`

const never = "922337203685477" // the end of a permit without one

// P2: Break ends permits of Java and of Go, hands them to the waiters, and notifies holders by message: their leases
// are not renewed, and end in an hour.
func TestBreakEndsPermitsInRedissonsLayout(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", 2, never, 5)
	held, err := semaphore.New(s, "x", 5).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	own, err := semaphore.New(operator, "x", 5).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	next := locktest.LaterWith(locktest.Context(t), func(ctx context.Context) (signalbox.Lease, error) {
		return semaphore.New(operator, "x", 5).Acquire(ctx, 4)
	})
	redistest.Await(t, "a waiter", func() bool { return locktest.Listeners(t, server, "redisson_sc:{x}") == 1 })
	redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 2 })
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "x"))
	redistest.Receive(t, "the loss", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)
	redistest.Receive(t, "the operator's own loss", own.Done())
	unlocked(t, next)
	require.Equal(t, "5", server.MustDo(t, "GET", "x"))
	require.Zero(t, server.MustDo(t, "EXISTS", "{x}:timeout"))
	require.ErrorIs(t, inspect.Break(locktest.Context(t), operator, "x"), signalbox.ErrWrongKind, "a number may be anything")
}

// P2: a session that listens already when it makes its first semaphore is notified too.
func TestSessionThatListensHearsOfBrokenPermits(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.SteadySession(t, server, java), locktest.SteadySession(t, server, java)
	lock := locktest.Must(t, reentrant.New(s, "lock").Lock)
	redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 1 })
	held, err := semaphore.New(s, "x", 1).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.NoError(t, inspect.Break(locktest.Context(t), operator, "x"))
	redistest.Receive(t, "the loss", held.Done())
	require.ErrorIs(t, held.Err(), signalbox.ErrLost)
	require.NoError(t, lock.Unlock())
}

// P1: permits are ended in pages. Those that ended by themselves are left to the next acquire, and are free once.
func TestBreakEndsThousandsOfPermitsInPages(t *testing.T) {
	t.Parallel()
	const n, ended = 2300, 70
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", n, never, n+ended)
	for i := range ended {
		server.MustDo(t, "ZADD", "{x}:timeout", 1000, fmt.Sprintf("ended%011d", i))
	}
	server.MustDo(t, "DECRBY", "x", ended)
	require.Equal(t, "0", server.MustDo(t, "GET", "x"))
	sent := server.SentBy(func() { require.NoError(t, inspect.Break(locktest.Context(t), s, "x")) })
	require.LessOrEqual(t, sent["zrem"], int64(5))
	require.LessOrEqual(t, sent["zrange"], int64(8))
	require.Equal(t, "2300", server.MustDo(t, "GET", "x"))
	permits, err := semaphore.New(s, "x", n+ended).Acquire(locktest.Context(t), 1)
	require.NoError(t, err)
	require.NoError(t, permits.Unlock())
	require.Equal(t, "2370", server.MustDo(t, "GET", "x"))
	require.Zero(t, server.MustDo(t, "EXISTS", "{x}:timeout"))
}

// The permits of an RSemaphore have no ids: Break refuses, and changes nothing. Nor does it change a key of another
// program that has the name of the one beside the number.
func TestBreakRefusesPermitsWithoutIDs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	permits, err := semaphore.New(s, "plain", 5, semaphore.Plain()).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	err = inspect.Break(locktest.Context(t), s, "plain")
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorContains(t, err, `break "plain"`)
	require.ErrorContains(t, err, "plain semaphore")
	require.NoError(t, permits.Err())
	require.NoError(t, permits.Unlock())
	require.Equal(t, "5", server.MustDo(t, "GET", "plain"))

	server.MustDo(t, "SET", "other", "5")
	server.MustDo(t, "ZADD", "{other}:timeout", never, "a member of its own")
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "other"), signalbox.ErrWrongKind)
	require.Equal(t, "5", server.MustDo(t, "GET", "other"))
	require.Equal(t, int64(1), server.MustDo(t, "ZCARD", "{other}:timeout"))

	// It does not end those whose ids it knows either, though they are in an earlier page.
	server.MustDo(t, "EVAL", javaTakes, 2, "mixed", "{mixed}:timeout", 600, never, 600)
	server.MustDo(t, "ZADD", "{mixed}:timeout", never, "x: behind them")
	require.ErrorIs(t, inspect.Break(locktest.Context(t), s, "mixed"), signalbox.ErrWrongKind)
	require.Equal(t, "0", server.MustDo(t, "GET", "mixed"))
	require.Equal(t, int64(601), server.MustDo(t, "ZCARD", "{mixed}:timeout"))

	fenced := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(redisson.Fenced))))
	server.MustDo(t, "EVAL", javaTakes, 2, "x", "{x}:timeout", 1, never, 5)
	require.ErrorIs(t, inspect.Break(locktest.Context(t), fenced, "x"), signalbox.ErrBadOption)
}

// P2: in a cluster the message reaches the holder's session at whatever node it listens.
func TestBreakEndsPermitsInACluster(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	java := signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithFixedLease(time.Hour))
	s, operator := locktest.Session(t, cluster, java), locktest.Session(t, cluster, java)
	for i := range 6 {
		name := fmt.Sprintf("n/%d", i)
		held, err := semaphore.New(s, name, 2).Acquire(locktest.Context(t), 2)
		require.NoError(t, err)
		redistest.Await(t, "a session that listens", func() bool { return locktest.Channels(s) == 2 })
		require.NoError(t, inspect.Break(locktest.Context(t), operator, name))
		redistest.Receive(t, "the loss", held.Done())
		require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)
		free, err := semaphore.New(operator, name, 2).Available(locktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 2, free)
	}
}

// Fills a server with names that are held, and as many that were released.
const fill = `
for i = ARGV[1], ARGV[2] do
  local key = 'sb:{many/' .. i .. '}:lock'
  redis.call('SET', key, 'sb1l1795246514376753' .. string.rep('a', 41) .. 'r-' .. 'label', 'PX', 60000)
  redis.call('SET', 'sb:{idle/' .. i .. '}:lock', 'sb1-1795246514376753', 'PX', 60000)
end`

func TestTenThousandNamesTakeBoundedCalls(t *testing.T) {
	t.Parallel()
	const names = 10_000
	server := redistest.Start(t)
	for from := 1; from <= names; from += 1000 {
		server.MustDo(t, "EVAL", fill, 0, from, from+999)
	}
	s := locktest.SteadySession(t, server)
	holders := 0
	seen := make(map[string]bool)
	sent := server.SentBy(func() {
		for entry, err := range inspect.Names(locktest.Context(t), s, "many/") {
			require.NoError(t, err)
			require.False(t, seen[entry.Name])
			seen[entry.Name] = true
			holders += entry.HolderCount
		}
	})
	require.Len(t, seen, names)
	require.Equal(t, names, holders)
	require.LessOrEqual(t, sent["scan"], int64(2*names/500+2))
	require.LessOrEqual(t, sent["evalsha"], int64(names))
	require.LessOrEqual(t, sent["exists"], int64(names))

	// The loop can be left.
	for range inspect.Names(locktest.Context(t), s, "many/") {
		break
	}
}

func TestAPageIsOnePipeline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "EVAL", fill, 0, 1, 500)
	s := locktest.SteadySession(t, server)
	require.Len(t, all(t, s, "many/"), 500) // the server knows the scripts
	before := reads(t, server)
	require.Len(t, all(t, s, "many/"), 500)
	require.Less(t, reads(t, server)-before, int64(200))
}

func reads(t *testing.T, server *redistest.Server) int64 {
	t.Helper()
	var n int64
	text := fmt.Sprint(server.MustDo(t, "INFO", "stats"))
	_, rest, found := strings.Cut(text, "total_reads_processed:")
	require.True(t, found)
	_, err := fmt.Sscan(rest, &n)
	require.NoError(t, err)
	return n
}

func TestEachNodeOfAClusterIsListed(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(time.Minute))
	s := locktest.Session(t, cluster)
	owners := make(map[*redistest.Server]int)
	for i := range 30 {
		name := fmt.Sprintf("n/%d", i)
		lease := locktest.Must(t, reentrant.New(s, name, signalbox.WithFixedLease(redistest.Patience)).Lock)
		defer lease.Unlock()
		owners[cluster.Owner(t, cluster.Slot(t, locktest.Key(name)))]++
	}
	require.Len(t, owners, 3)
	require.Len(t, all(t, s, "n/"), 30)
	l := running(t, locktest.Session(t, cluster), "n/")
	require.Len(t, l.Snapshot(locktest.Context(t)).Entries, 30)

	frozen := cluster.Owner(t, cluster.Slot(t, locktest.Key("n/0")))
	frozen.Freeze()
	defer frozen.Thaw()
	entries, failures := listed(t, s, "n/")
	require.Len(t, entries, 30-owners[frozen])
	require.Len(t, failures, 1)
	var node *inspect.NodeError
	require.ErrorAs(t, failures[0], &node)
	require.Equal(t, frozen.Addr(), node.Node)
	redistest.Await(t, "the names of the other nodes", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return errors.As(now.Err, &node) && len(now.Entries) == 30-owners[frozen]
	})
	frozen.Thaw()
	redistest.Await(t, "all names", func() bool {
		now := l.Snapshot(locktest.Context(t))
		return now.Err == nil && len(now.Entries) == 30
	})
}
