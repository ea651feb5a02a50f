// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// life is that of every lease here. What cannot be released is over soon, though not while a machine stalls
// for a moment or two. A renewal is due every two seconds, and leaves four.
const life = 6 * time.Second

// whole gives holds their whole lease from the start, and not three seconds of it, for which a busy machine is suspended.
func whole() signalbox.SessionOption {
	return signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour))
}

// later is why these tests take real time.
const later = "a real server judges rights, and renewals, polls and the end of a subscription need theirs seconds after a call"

// long is a context for calls that wait for what others do.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// fixture is a user with certain rights, two sessions of that user, and locks of one kind that no other fixture has.
type fixture struct {
	*servers

	kind    lockKind
	name    string // the name of the user, with which the names of its locks begin
	secrets *locktest.Secrets
	view    *locktest.View
	a, b    *signalbox.Session
	ended   map[workStep]error
	givesUp bool   // the waiter is to give up: nothing is unlocked before it has
	last    string // the label of the last waiter in the queue, as Waiters returned it
}

// newFixture makes the user, and names it.
func (s *servers) newFixture(t *testing.T, k lockKind, name string, rights []string) *fixture {
	t.Helper()
	w := &fixture{servers: s, kind: k, name: name, secrets: locktest.NewSecrets(t), view: locktest.NewView(t, s)}
	s.allow(t, name, rights)
	w.secrets.Add(password)
	w.a, w.b = w.session(t, "a"), w.session(t, "b")
	return w
}

func (w *fixture) session(t *testing.T, name string) *signalbox.Session {
	t.Helper()
	s := locktest.Session(t, w.as(w.name), whole(), signalbox.WithLabel(name), signalbox.WithLogger(w.secrets.Logger().With("session", name)))
	w.secrets.AddSession(s)
	return s
}

// The names of the locks that a fixture works with.
func (w *fixture) plain() string  { return w.name + " plain" }
func (w *fixture) forced() string { return w.name + " forced" }
func (w *fixture) copied() string { return w.name + " copied" }
func (w *fixture) kept() string   { return w.name + " kept" }

func id(s *signalbox.Session) string { return (*session.Handle)(s).Session().ID() }

// workStep is one thing that a program does with a lock.
type workStep string

const (
	lock       workStep = "Lock"
	enter      workStep = "Lock again"
	try        workStep = "TryLock of a held lock"
	holder     workStep = "Holder"
	isLocked   workStep = "IsLocked"
	waiters    workStep = "Waiters" // of kinds that have it
	renew      workStep = "renewal"
	unlock     workStep = "Unlock while another waits"
	wait       workStep = "Lock of a held lock"
	leave      workStep = "Unlock without a waiter"
	force      workStep = "ForceUnlock"
	leaseError workStep = "the error of the lease after ForceUnlock"
	copies     workStep = "Lock with WithReplicas"
)

func (w *fixture) receive(s workStep, err error) error {
	w.ended[s] = w.secrets.RecordError(err)
	return err
}

// work does everything but to close, as far as it can, and returns what each step ended with.
func (w *fixture) work(t *testing.T) map[workStep]error {
	t.Helper()
	w.ended = make(map[workStep]error)
	mine, theirs := w.kind.newLock(w.a, w.plain(), signalbox.WithRenewedLease(life)), w.kind.newLock(w.b, w.plain(), signalbox.WithRenewedLease(life))
	ctx := long(t)
	lease, err := mine.Lock(ctx)
	if w.receive(lock, err) == nil {
		again, err := mine.Lock(lease.Enter(ctx))
		require.NoError(t, w.receive(enter, err))
		require.NoError(t, again.Unlock())
	}
	_, err = theirs.TryLock(ctx)
	_ = w.receive(try, err)
	who, err := theirs.Holder(ctx)
	if w.receive(holder, err) == nil {
		require.Equal(t, "a", who.Label)
	}
	_, err = theirs.IsLocked(ctx)
	_ = w.receive(isLocked, err)
	if lease.Err() == nil {
		w.handOver(t, lease, theirs)
	}
	w.take(t)
	w.copy(t)
	return w.ended
}

// handOver makes the other session wait for a lock until it is released.
func (w *fixture) handOver(t *testing.T, lease signalbox.Lease, theirs testedLock) {
	t.Helper()
	w.kind.crowd(t, w.servers, w.plain())
	waited := make(chan [2]error, 1)
	ctx := long(t)
	go func() {
		second, err := theirs.Lock(ctx)
		both := [2]error{err}
		if err == nil {
			both[1] = second.Unlock()
		}
		waited <- both
	}()
	redistest.Await(t, "a waiter", func() bool { return w.queued(t) || len(waited) > 0 })
	if line, ok := theirs.(queuedLock); ok {
		var last signalbox.Waiter
		var failed error
		for waiter, err := range line.Waiters(ctx) {
			last, failed = waiter, err
		}
		_ = w.receive(waiters, failed)
		w.last = last.Label
	}
	// A session that is busy for long listens on a channel of its own, beside the channel of a lock that it
	// waits for.
	redistest.Await(t, "all channels", func() bool {
		return lease.Err() != nil || locktest.Channels(w.a) > 0 && (locktest.Channels(w.b) > 1 && !w.givesUp || len(waited) > 0)
	})
	before := lease.Deadline()
	redistest.Await(t, "a renewal", func() bool { return lease.Err() != nil || lease.Deadline().Sub(before) > life/20 })
	_ = w.receive(renew, lease.Err())
	_ = w.receive(unlock, lease.Unlock())
	both := <-waited
	if w.receive(wait, both[0]) == nil {
		_ = w.receive(leave, both[1])
	}
}

// queued reports whether the server knows that the second session waits.
func (w *fixture) queued(t *testing.T) bool {
	t.Helper()
	keys := locktest.Keys(w.plain())
	mark := ""
	if w.text(t, "TYPE", keys.Holder) == "string" {
		mark = w.text(t, "GET", keys.Holder)
	}
	return strings.Contains(mark+w.text(t, "ZRANGE", keys.QueueKey(), "0", "-1")+w.text(t, "ZRANGE", keys.Writers(), "0", "-1"), id(w.b))
}

// take lets the other session take a lock by force.
func (w *fixture) take(t *testing.T) {
	t.Helper()
	ctx := long(t)
	lease, err := w.kind.newLock(w.a, w.forced(), signalbox.WithRenewedLease(life)).Lock(ctx)
	if w.secrets.RecordError(err) != nil {
		return
	}
	if w.receive(force, w.kind.newLock(w.b, w.forced()).ForceUnlock(ctx)) != nil {
		_ = w.secrets.RecordError(lease.Unlock())
		return
	}
	redistest.Receive(t, "the end of a lease that was taken", lease.Done())
	_ = w.receive(leaseError, lease.Err())
}

// copy waits for a replica. Without replicas that takes no time.
func (w *fixture) copy(t *testing.T) {
	t.Helper()
	lasts, patience := life, time.Millisecond
	if len(w.data) > 1 {
		lasts, patience = 2*redistest.Patience, redistest.Patience
	}
	lease, err := w.kind.newLock(w.a, w.copied(), signalbox.WithRenewedLease(lasts), signalbox.WithReplicas(1, patience)).Lock(locktest.Context(t))
	if w.receive(copies, err) == nil {
		_ = w.secrets.RecordError(lease.Unlock())
	}
}

// close closes the sessions.
func (w *fixture) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	return w.secrets.RecordError(errors.Join(w.a.Close(ctx), w.b.Close(ctx)))
}

// clean demands that nothing is held, waited for, being undone, listened to or without an end.
func (w *fixture) clean(t *testing.T) {
	t.Helper()
	redistest.Await(t, "nothing is being undone", func() bool { return locktest.Undoing(w.a)+locktest.Undoing(w.b) == 0 })
	for _, name := range []string{w.plain(), w.forced(), w.copied(), w.kept()} {
		redistest.Await(t, "nothing is held", func() bool { return w.view.MustHold(t, name).ID == "" })
		keys := locktest.Keys(name)
		for _, line := range []string{keys.QueueKey(), keys.Writers(), keys.Readers()} {
			require.NotContains(t, w.text(t, "ZRANGE", line, "0", "-1"), id(w.a), "a ticket")
			require.NotContains(t, w.text(t, "ZRANGE", line, "0", "-1"), id(w.b), "a ticket")
		}
		for _, key := range []string{keys.Holder, keys.QueueKey(), keys.HeartbeatsKey(), keys.Writers(), keys.Readers(), keys.RWHeartbeats()} {
			require.NotEqual(t, "-1", w.text(t, "PTTL", key), "%s has no end", key)
		}
	}
	redistest.Await(t, "no subscription is left", func() bool {
		return len(w.channels(t, "{"+w.name, id(w.a), id(w.b))) == 0
	})
}
