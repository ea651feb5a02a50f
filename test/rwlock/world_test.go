// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/stamp"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

const (
	// bound is what the dead may delay anybody by who waits, 3 s and a second, with much more for a machine that
	// is busy.
	bound = 15 * time.Second
	// limit is how long a test waits for many. Only a broken promise takes that long.
	limit = 3 * time.Minute
)

// world is a server with sessions that nothing happens to.
type world struct {
	server        *redistest.Server
	holder, other *signalbox.Session
	view          *locktest.View
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server := redistest.Start(t)
	wiretest.LoadScripts(t, server)
	return &world{server, locktest.Session(t, server), locktest.Session(t, server), locktest.NewView(t, server)}
}

// own is what makes a reader have a hold of its own, which nobody shares.
func own() signalbox.LockOption { return signalbox.MaxHold(time.Hour) }

// takes answers a lease of a lock that is to be had at once.
func takes(t *testing.T, side locktest.Primitive, s *signalbox.Session, name string, options ...signalbox.LockOption) signalbox.Lease {
	t.Helper()
	lease, err := side.New(s, name, options...).Lock(locktest.Context(t))
	require.NoError(t, err)
	return lease
}

// result is what a Lock answered.
type result struct {
	lease signalbox.Lease
	err   error
}

// asks lets a session wait for a lock. It returns when it stands in line, where n are then.
func (w *world) asks(t *testing.T, side locktest.Primitive, s *signalbox.Session, name string, n int) <-chan result {
	t.Helper()
	got := begins(long(t), side.New(s, name))
	w.waiting(t, name, n)
	return got
}

func begins(ctx context.Context, lock locktest.Lock) <-chan result {
	got := make(chan result, 1)
	go func() {
		lease, err := lock.Lock(ctx)
		got <- result{lease, err}
	}()
	return got
}

// waiting waits until n stand in line.
func (w *world) waiting(t *testing.T, name string, n int) {
	t.Helper()
	redistest.AwaitFor(t, limit, fmt.Sprint(n, " stand in line"), func() bool { return w.view.Waiting(name) == n })
}

// gets receives what a Lock answered, which must be a lease, within limit.
func gets(t *testing.T, got <-chan result, limit time.Duration) signalbox.Lease {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-got:
		require.NoError(t, r.err)
		return r.lease
	case <-late.C:
		t.Fatalf("not granted within %v", limit)
		panic("unreachable")
	}
}

// nothingLeft fails the test if anybody still has a lock or stands in line after a while.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	view := locktest.NewView(t, w.server) // a connection that no restart has broken
	redistest.AwaitFor(t, bound, "nobody holds anything or stands in line", func() bool {
		immortal, held, err := view.Leaks()
		require.NoError(t, err)
		require.Empty(t, immortal, "keys without an end")
		return len(held) == 0
	})
	for _, s := range []*signalbox.Session{w.holder, w.other} {
		redistest.AwaitFor(t, bound, "nothing is under way", func() bool { return locktest.Settling(s) == 0 })
	}
}

// long is a context for a call that has to wait for what takes longer than usual.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

func id(s *signalbox.Session) string { return (*session.Session)(s).ID() }

// granted answers when the server let somebody in, by its own clock.
func granted(lease signalbox.Lease) stamp.Stamp { return stamp.Floor(lease.Token()) }

// ticket answers when a session got in line, by the server's clock, where it stands in one of these.
func (w *world) ticket(t *testing.T, s *signalbox.Session, lines ...string) (stamp.Stamp, bool) {
	t.Helper()
	for _, line := range lines {
		reply, ok := w.server.MustDo(t, "ZRANGE", line, 0, -1, "WITHSCORES").([]any)
		require.True(t, ok)
		for i := 0; i+1 < len(reply); i += 2 {
			if strings.HasPrefix(fmt.Sprint(reply[i]), id(s)) {
				return stamp.Parse(fmt.Sprintf("%016s", reply[i+1])), true
			}
		}
	}
	return 0, false
}
