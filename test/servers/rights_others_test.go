// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// permits uses a semaphore in every way there is.
func (s *servers) permits(t *testing.T, user string) {
	t.Helper()
	const name = "permits"
	one, other := locktest.Session(t, s.as(user), whole()), locktest.Session(t, s.as(user))
	sem := semaphore.New(one, name, 3, signalbox.WithRenewedLease(6*time.Second))
	elsewhere := semaphore.New(other, name, 3)
	held, err := sem.TryAcquire(t.Context(), 2)
	require.NoError(t, err)
	first := held.Deadline()
	waits := make(chan error, 1)
	go func() {
		lease, err := elsewhere.Acquire(locktest.Context(t), 3)
		if err == nil {
			err = lease.Unlock()
		}
		waits <- err
	}()
	redistest.Await(t, "a renewal, with a waiter in the queue", func() bool {
		_, err := sem.TryAcquire(t.Context(), 2)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		return held.Deadline().After(first.Add(time.Second))
	})
	n, err := sem.Available(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, err := range elsewhere.Holders(t.Context()) {
		require.NoError(t, err)
	}
	require.NoError(t, held.Unlock())
	require.NoError(t, <-waits)
	require.NoError(t, elsewhere.SetCapacity(t.Context(), 4))
	w := sem.Weighted(t.Context())
	w.OnLost(func(err error) { t.Error(err) })
	require.NoError(t, w.Acquire(t.Context(), 4))
	w.Release(1)
	w.Release(3)
}

// latch does all that a latch can.
func (s *servers) latch(t *testing.T, user string) {
	t.Helper()
	const name = "{a} latch"
	ctx, one, other := locktest.Context(t), locktest.Session(t, s.as(user)), locktest.Session(t, s.as(user))
	mine, theirs := countdown.New(one, name), countdown.New(other, name)
	round, err := mine.Start(ctx, 2)
	require.NoError(t, err)
	joined, err := theirs.Round(ctx)
	require.NoError(t, err)
	waited := locktest.Later(func() (countdown.Round, error) { return joined, joined.Wait(ctx) })
	redistest.Await(t, "a waiter", func() bool { return locktest.Channels(other) > 0 })
	_, err = joined.Count(ctx)
	require.NoError(t, err)
	for _, id := range []string{"x", "y"} {
		_, err = round.CountDown(ctx, id)
		require.NoError(t, err)
	}
	locktest.MustHave(t, waited)
	_, err = mine.Start(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, mine.Reset(ctx))
}

// reader returns the rights of a user that only lists names.
func reader(t *testing.T) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^    (resetkeys .* \+scan .*)$`).FindStringSubmatch(page(t))
	require.NotNil(t, line)
	return strings.Fields(line[1])
}

// occupy leaves a name of each kind in use, with waiters. It returns the kinds by name.
func occupy(t *testing.T, s *servers) map[string]string {
	t.Helper()
	ctx, a, b := locktest.Context(t), locktest.SteadySession(t, s), locktest.SteadySession(t, s)
	waits := func(name string, call func(ctx context.Context) (signalbox.Lease, error)) {
		lease, err := call(ctx)
		require.NoError(t, err)
		waiting, leave := context.WithCancel(t.Context()) // as long as the test: a waiter that has left needs fewer rights
		other := locktest.LaterWith(waiting, func(ctx context.Context) (signalbox.Lease, error) {
			if name == "semaphore" {
				return semaphore.New(b, name, 1).Acquire(ctx, 1)
			} else if name == "rwlock" {
				return rwlock.New(b, name).Lock(ctx)
			}
			return fair.New(b, name).Lock(ctx)
		})
		redistest.Await(t, "a waiter", func() bool {
			entries, err := inspect.Name(ctx, a, name)
			return err == nil && len(entries) == 1 && entries[0].WaiterCount == 1
		})
		t.Cleanup(func() {
			leave()
			<-other
			require.NoError(t, locktest.IgnoreUnconfirmed(lease.Unlock()))
		})
	}
	waits("fair", fair.New(a, "fair", signalbox.WithFixedLease(time.Hour)).Lock)
	waits("rwlock", rwlock.New(a, "rwlock", signalbox.WithFixedLease(time.Hour)).RLock)
	waits("semaphore", func(ctx context.Context) (signalbox.Lease, error) {
		return semaphore.New(a, "semaphore", 1, signalbox.WithFixedLease(time.Hour)).Acquire(ctx, 1)
	})
	_, err := countdown.New(a, "countdown").Start(ctx, 2)
	require.NoError(t, err)
	_, _, err = once.New(a, "once").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
	require.NoError(t, err)
	_, err = shards.New(a, "shards", shards.Count(2)).Join(ctx) // which leaves when its session is closed
	require.NoError(t, err)
	return map[string]string{
		"shards": inspect.Shards, "fair": inspect.Fair, "rwlock": inspect.RWLock, "semaphore": inspect.Semaphore, "countdown": inspect.Countdown, "once": inspect.Once,
	}
}

// inspected returns what Names yields: the kinds by name, and the errors.
func inspected(t *testing.T, s *signalbox.Session) (kinds map[string]string, failures []error) {
	t.Helper()
	kinds = make(map[string]string)
	for entry, err := range inspect.Names(locktest.Context(t), s, "") {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		kinds[entry.Name] = entry.Kind
	}
	return kinds, failures
}

// P10: the names are listed under the rights of the page, and nothing is denied.
func TestTheRightsOfThePageAreEnoughToInspect(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) redistest.Topology{
		"OneServer": func(t *testing.T) redistest.Topology { t.Helper(); return redistest.Start(t) },
		"Cluster": func(t *testing.T) redistest.Topology {
			t.Helper()
			redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
			return redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, start(t))
			want := occupy(t, s)
			s.allow(t, "reader", reader(t))
			session := locktest.Session(t, s.as("reader"))
			kinds, failures := inspected(t, session)
			require.Empty(t, failures)
			require.Equal(t, want, kinds)
			for name := range want {
				entries, err := inspect.Name(locktest.Context(t), session, name)
				require.NoError(t, err)
				require.Len(t, entries, 1)
			}
			require.Empty(t, s.denials(t, "reader"))
			require.ErrorIs(t, inspect.Break(locktest.Context(t), session, "fair"), signalbox.ErrDenied)
		})
	}
}

// P10: without a right the error says so, and the names that do not need it are listed.
func TestEachRightThatAnInspectorLacksIsReported(t *testing.T) {
	t.Parallel()
	s := newServers(t, redistest.Start(t))
	want := occupy(t, s)
	all := reader(t)
	for without, missing := range map[string]string{
		"+evalsha": "fair rwlock semaphore once shards", "+scan": "fair rwlock semaphore countdown once shards", "+hmget": "shards",
		"~sb:*": "fair rwlock semaphore countdown once shards", "+time": "fair rwlock semaphore shards", "+zlexcount": "shards", "+get": "fair rwlock", "+getrange": "once",
		"+hget": "fair rwlock semaphore countdown", "+hlen": "countdown", "+exists": "fair rwlock semaphore",
		"+zcard": "fair rwlock semaphore shards", "+zmscore": "rwlock semaphore", "+zrange": "fair rwlock semaphore shards", "+pexpiretime": "fair once",
	} {
		user := "without" + strings.TrimLeft(without, "+~")
		if without == "~sb:*" {
			user = "keyless"
		}
		require.Contains(t, all, without)
		s.allow(t, user, slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == without }))
		kinds, failures := inspected(t, locktest.Session(t, s.as(user)))
		left := maps.Clone(want)
		for name := range strings.FieldsSeq(missing) {
			delete(left, name)
		}
		require.Equal(t, left, kinds, without)
		require.NotEmpty(t, failures)
		for _, err := range failures {
			require.ErrorIs(t, err, signalbox.ErrDenied, without)
		}
		require.NotEmpty(t, s.denials(t, user))
	}
}

// P9: names that are hashed are nowhere outside the process, and sessions that hash share their locks, while a plain
// name and its digest are two locks.
func TestHashedNamesAreNowhereOutsideTheProcess(t *testing.T) {
	t.Parallel()
	const name = "patient/Erika Mustermann"
	server, secrets := redistest.Start(t), locktest.NewSecrets(t)
	secrets.Add(name, "Mustermann")
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(func([]string) bool { return true })
	proxy.OnRequest(func(_ int, words []string) { _, _ = fmt.Fprintln(secrets, words) })
	session := func() *signalbox.Session {
		return locktest.Session(t, proxy, whole(), signalbox.WithHashedNames(), signalbox.WithLogger(secrets.Logger()))
	}
	one, two := session(), session()
	lease, err := reentrant.New(one, name).Lock(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, []string{"sb:{" + proto.Hash(name) + "}:lock"}, server.Keys("*"))
	_, err = reentrant.New(two, name).TryLock(locktest.Context(t))
	require.ErrorIs(t, secrets.RecordError(err), signalbox.ErrHeld)
	var named *signalbox.OpError
	require.ErrorAs(t, err, &named)
	require.Equal(t, proto.Hash(name), named.Name)

	// Waiting, too.
	waited := make(chan error, 1)
	go func() {
		lease, err := reentrant.New(two, name).Lock(locktest.Context(t))
		if err == nil {
			err = lease.Unlock()
		}
		waited <- err
	}()
	redistest.Await(t, "a waiter", func() bool { return locktest.Channels(two) > 0 })
	require.NoError(t, lease.Unlock())
	require.NoError(t, secrets.RecordError(<-waited))

	plain := locktest.Session(t, server, whole())
	for _, other := range []string{name, proto.Hash(name)} {
		lease, err := reentrant.New(one, name).Lock(locktest.Context(t))
		require.NoError(t, err)
		free, err := reentrant.New(plain, other).TryLock(locktest.Context(t))
		require.NoError(t, err, "%s is another lock", other)
		require.NoError(t, free.Unlock())
		require.NoError(t, lease.Unlock())
	}
	_, err = reentrant.New(one, "").TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrBadName)
}

// A client that may only publish deceives no session: a forged grant leads to a poll, a forged ForceUnlock
// leads to a question, and the lock is not affected.
func TestAClientThatMayOnlyPublishDeceivesNoSession(t *testing.T) {
	t.Parallel()
	server, keys := redistest.Start(t), locktest.Keys("forged")
	view, holder, waiter := locktest.NewView(t, server), locktest.Session(t, server), locktest.Session(t, server)
	held := locktest.Must(t, fair.New(holder, "forged").Lock)
	got := locktest.LaterWith(t.Context(), fair.New(waiter, "forged").Lock)
	grants, news := proto.Grants(proto.DefaultPrefix)+id(waiter), proto.Session(proto.DefaultPrefix, id(holder))
	redistest.Await(t, "a waiter that listens, and a holder that does", func() bool {
		return locktest.Listeners(t, server, grants) == 1 && locktest.Listeners(t, server, news) == 1
	})
	calls := func(command string) int64 { return server.CommandStats()[command].Calls }

	tickets := fmt.Sprint(server.MustDo(t, "ZRANGE", keys.QueueKey(), 0, -1))
	attempt := strings.TrimPrefix(strings.Trim(tickets, "[]"), id(waiter))[:19]            // behind it is the mode
	forged := wire.ParseStamp(fmt.Sprintf("%016d", time.Now().Add(time.Hour).UnixMicro())) // no true token is so great
	polls := calls("zmscore")
	server.MustDo(t, "PUBLISH", grants, attempt+forged.Text()+"000000000001AAAAAAAA")
	redistest.Await(t, "a poll", func() bool { return calls("zmscore") > polls })
	require.Empty(t, got)
	asked := calls("get")
	server.MustDo(t, "PUBLISH", news, keys.Holder)
	redistest.Await(t, "a question", func() bool { return calls("get") > asked })

	require.NoError(t, held.Unlock())
	lease := locktest.MustHave(t, got)
	require.Less(t, lease.Token(), forged.Token())
	require.Equal(t, view.MustHold(t, "forged").Token, lease.Token())
	require.NoError(t, lease.Unlock())
}
