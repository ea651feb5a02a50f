// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// givenUpUnderFault ends the context of a call whose request has a fault, and lets another call of the process wait behind it. That has the
// lock as soon as the wire is healed and the lock is free, and nothing is left, also where no heartbeat is missed: the process lives.
func givenUpUnderFault(w *World, k Kind) {
	w.defaults = append(w.defaults, signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour))) // what is left would last
	helper := w.Rival(k)
	for i, t := range []trial{{name: "free"}, {name: "held", waits: true}, {name: "try", try: true}} {
		for t.fault = LoseRequest; t.fault < faults; t.fault++ {
			if t.try && k.NoTry || redistest.Quick() && (i+int(t.fault)+len(k.Name))%3 != 0 {
				continue // kinds have the others
			}
			w.givesUp(k, helper, t)
		}
	}
}

func (w *World) givesUp(k Kind, helper *Process, t trial) {
	w.Helper()
	p := w.Process(k)
	defer p.End()
	name := fmt.Sprint(t)
	w.Unlocks(w.Holds(p, "before"))
	var h Hold
	if t.waits {
		h = w.Holds(helper, name)
	}
	p.Arm(1, t.fault)
	ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
	defer cancel()
	call := p.Lock(name).Lock
	if t.try {
		call = p.Lock(name).TryLock
	}
	gone := locktest.LaterWith(ctx, call)
	w.Arrive()
	stays := locktest.LaterWith(w.Context(), p.Lock(name).Lock)
	if got := <-gone; got.Err == nil {
		w.Released(got.Value)
	} else if !t.try {
		require.ErrorIs(w, got.Err, context.DeadlineExceeded, "%v", t)
	}
	switch {
	case t.fault == LateRequest, t.fault == LateReply: // it comes
	case t.fault == HideRequest && t.waits: // tickets outlive an outage
		p.Silence()
		time.Sleep(20 * time.Second)
		p.Heal()
		time.Sleep(10 * time.Second)
	default:
		p.Heal()
	}
	if t.waits {
		w.Unlocks(h)
	}
	require.NoError(w, locktest.IgnoreUnconfirmed(w.Gets(stays, 4*time.Second).Unlock())) // the connection may break just then
	time.Sleep(4 * time.Second)
	w.LeavesNothing(helper, name)
	w.Free(helper, name)
}

// waitCosts lets many goroutines of a session wait: together they poll about once a second, unless the layout is that of other clients, are
// subscribed once, and cost no goroutine. Nothing remains of waits that have ended.
func waitCosts(w *World, k Kind) {
	p, other := w.Process(k), w.Rival(k)
	w.Unlocks(w.Holds(p, "before"))
	h := w.Holds(other, "a")
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	const waiters = 20
	var all []waiter
	for range waiters {
		all = append(all, locktest.LaterWith(ctx, p.Lock("a").Lock))
	}
	time.Sleep(10 * time.Second)
	require.LessOrEqual(w, started(), 8*max(k.Servers, 1), "none for each call")
	p.Arm(0, None)
	seconds := redistest.Rounds(120, 900)
	time.Sleep(time.Duration(seconds) * time.Second)
	require.True(w, k.In != nil || len(p.Requests()) <= seconds*max(k.Servers, 1)*5/4+1, "%d requests", len(p.Requests()))
	require.NotEmpty(w, p.Requests())
	for _, redis := range w.redis {
		require.True(w, k.In != nil || len(redis.PubSubChannels("")) <= 5, "%q", redis.PubSubChannels(""))
	}
	cancel()
	for _, waiting := range all {
		require.ErrorIs(w, (<-waiting).Err, context.Canceled)
	}
	w.Unlocks(h)
	time.Sleep(15 * time.Second)
	p.Arm(0, None)
	time.Sleep(time.Minute)
	require.Empty(w, p.Requests())
	w.NoSubscribers()
	synctest.Wait()
	require.Zero(w, locktest.Goroutines())
}

// waitEnds ends waits by their contexts. The error says that, and that the lock is held if the server said so, or that it cannot be
// reached.
func waitEnds(w *World, k Kind) {
	a, b := w.Rival(k), w.Process(k)
	h := w.Holds(a, "a")
	dropped := errors.New("the request was dropped")
	stays, leave := context.WithCancel(w.Context())
	defer leave()
	ended := func(cause error) error {
		ctx, cancel := context.WithCancelCause(w.Context())
		time.AfterFunc(3*time.Second, func() { cancel(cause) })
		began := time.Now()
		_, err := b.Lock("a").Lock(ctx)
		require.LessOrEqual(w, time.Since(began), 3*time.Second+w.Grace)
		require.ErrorIs(w, err, context.Canceled)
		require.ErrorIs(w, err, cause)
		return err
	}
	var left []waiter
	for range 2 { // alone, and behind another waiter of the session
		err := ended(dropped)
		require.True(w, k.Function || k.NoLease || errors.Is(err, signalbox.ErrHeld), "%v", err)
		left = append(left, w.Waits(stays, b, "a"))
	}
	leave()
	for _, waiting := range left { // else one may be granted the lock in the same instant
		require.ErrorIs(w, (<-waiting).Err, context.Canceled)
	}
	w.Unlocks(h)
	w.Unlocks(w.Holds(b, "a"))
	b.Refuse()
	err := ended(dropped)
	require.NotErrorIs(w, err, signalbox.ErrHeld)
	var refused *net.OpError
	require.ErrorAs(w, err, &refused)
	waiting := w.Waits(w.Context(), b, "a")
	time.Sleep(5 * time.Second)
	require.Empty(w, waiting)
	b.Heal()
	w.Unlocks(w.Gets(waiting, 2*time.Second))
}
