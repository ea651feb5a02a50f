// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// contendedLock is one lock with a holder and a waiter elsewhere.
type contendedLock struct {
	name string
	held signalbox.Lease
	got  <-chan locktest.Result[signalbox.Lease]
}

// queues makes locks that the fixture's holder holds and the session waits for.
func (f *fixture) queues(t *testing.T, waiter *signalbox.Session, options ...signalbox.LockOption) []*contendedLock {
	t.Helper()
	queues := make([]*contendedLock, 16)
	for i := range queues {
		q := &contendedLock{name: fmt.Sprint("queue/", i)}
		q.held = locktest.Must(t, reentrant.New(f.holder, q.name, options...).Lock)
		q.got = locktest.LaterWith(t.Context(), reentrant.New(waiter, q.name).Lock)
		queues[i] = q
	}
	f.listening(t, queues)
	return queues
}

// served fails the test if a waiter does not get its lock. A waiter that waited for the end of the key would not.
func served(t *testing.T, queues []*contendedLock) {
	t.Helper()
	for _, q := range queues {
		lease := locktest.MustHave(t, q.got)
		require.Greater(t, lease.Token(), q.held.Token())
		require.NoError(t, locktest.IgnoreUnconfirmed(lease.Unlock()))
	}
}

// listening waits until the waiter of each lock has a ticket, and learns of its grant: on the one channel of its session.
func (f *fixture) listening(t *testing.T, queues []*contendedLock) {
	t.Helper()
	redistest.Await(t, "all sessions listen", func() bool {
		for _, q := range queues {
			if f.view.Waiting(q.name) != 1 {
				return false
			}
		}
		return len(f.server.MustDo(t, "PUBSUB", "CHANNELS", names.Grants(names.DefaultPrefix)+"*").([]any)) == 1 //nolint:forcetypeassert // a list
	})
}

// P6: waiters whose subscription breaks, in whatever way, get the lock all the same.
func TestWaiterOutlivesItsSubscription(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		client func(*rueidis.ClientOption)
		breaks func(*testing.T, *fixture, faultySession)
	}{
		"KilledByTheServer": {locktest.Steady, func(t *testing.T, f *fixture, _ faultySession) {
			t.Helper()
			f.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}},
		"Cut":      {locktest.Steady, func(_ *testing.T, _ *fixture, l faultySession) { l.proxy.CutAll() }},
		"HalfOpen": {impatient, func(_ *testing.T, _ *fixture, l faultySession) { l.proxy.HalfOpenAll() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "KilledByTheServer" {
				redistest.Slow(t, "a connection that broke is made anew after a pause, and one that is silent found after a second")
			}
			f := newFixture(t)
			link := f.link(t, redistest.Commands("SUBSCRIBE"), c.client)
			queues := f.queues(t, link.session)
			c.breaks(t, f, link)
			for _, q := range queues {
				require.NoError(t, q.held.Unlock())
			}
			served(t, queues)
		})
	}
}
