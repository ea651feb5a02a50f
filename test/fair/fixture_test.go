// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	// life is how long a waiter counts as alive after it was seen.
	life = 3 * time.Second
	// bound is how long dead waiters may delay the others: 3 s and a second, with much more for a busy
	// machine.
	bound = 15 * time.Second
	// limit is how long a test waits for a drain or a run of many. Only a broken promise takes that long.
	limit = 3 * time.Minute
)

// fixture is a server with sessions without faults.
type fixture struct {
	server *redistest.Server
	holder *signalbox.Session
	waiter *signalbox.Session
	view   *locktest.View
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	return &fixture{server, locktest.Session(t, server), locktest.Session(t, server), locktest.NewView(t, server)}
}

func (f *fixture) openLog(t *testing.T, name string) *holderLog {
	t.Helper()
	return &holderLog{f.server.Client(t, locktest.Steady), name}
}

// hold acquires a lock for the holder.
func (f *fixture) hold(t *testing.T, name string, options ...signalbox.LockOption) signalbox.Lease {
	t.Helper()
	lease, err := fair.New(f.holder, name, options...).Lock(locktest.Context(t))
	require.NoError(t, err)
	return lease
}

// queueFor makes a session wait for a lock. It returns when the session has a ticket and there are n.
func (f *fixture) queueFor(t *testing.T, s *signalbox.Session, name string, n int) <-chan locktest.Result[signalbox.Lease] {
	t.Helper()
	got := begins(t, s, name)
	f.waiting(t, name, n)
	return got
}

// begins makes a session wait for a lock that may be free.
func begins(t *testing.T, s *signalbox.Session, name string) <-chan locktest.Result[signalbox.Lease] {
	t.Helper()
	return locktest.LaterWith(long(t), fair.New(s, name).Lock)
}

// awaitListeners waits until n sessions listen for their grants.
func (f *fixture) awaitListeners(t *testing.T, n int) {
	t.Helper()
	redistest.Await(t, "they listen for grants", func() bool {
		channels, ok := f.server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
		return ok && len(channels) == n
	})
}

// waiting waits until there are n tickets.
func (f *fixture) waiting(t *testing.T, name string, n int) {
	t.Helper()
	redistest.AwaitFor(t, limit, "they are queued", func() bool { return f.view.Waiting(name) == n })
}

// nothingLeft fails the test if the lock still has a holder or a waiter after a while.
func (f *fixture) nothingLeft(t *testing.T) {
	t.Helper()
	view := locktest.NewView(t, f.server) // a connection that no restart has broken
	redistest.AwaitFor(t, bound, "no holds and no tickets", func() bool {
		immortal, held, err := view.Leaks()
		require.NoError(t, err)
		require.Empty(t, immortal, "keys without an end")
		return len(held) == 0
	})
	for _, s := range []*signalbox.Session{f.holder, f.waiter} {
		redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Undoing(s) == 0 })
	}
}

// long is a context for a call that has to wait for what takes longer than usual.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// forgive ignores the error of an Unlock without a reply in its second, on a busy machine, and of a hold
// that a process lost because it stalled for seconds.
func forgive(err error) error {
	if errors.Is(err, signalbox.ErrUnconfirmed) || errors.Is(err, signalbox.ErrLost) {
		return nil
	}
	return err
}
