// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
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
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

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
