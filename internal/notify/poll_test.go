// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P6: each poll of a batch has the reply for its own lock.
func TestBatchedPollsHaveTheirOwnReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	var free, held []*notify.Wait
	for i := range 250 {
		target := targetOf(t, fmt.Sprint(i))
		w := subscribed(t, d, target)
		if i%2 == 0 {
			free = append(free, w)
			continue
		}
		holdKey(t, server, target)
		held = append(held, w)
	}
	for i := range free {
		free[i].FoundHeld(0)
		held[i].FoundHeld(0)
	}
	for _, w := range free {
		redistest.Receive(t, "the wake-up of a free lock's waiter", w.C)
	}
	redistest.Await(t, "a poll of every lock that is held", func() bool {
		marked := 0
		for i := 1; i < 250; i += 2 {
			if value, _ := server.MustDo(t, "GET", targetOf(t, fmt.Sprint(i)).Key).(string); strings.HasSuffix(value, waiterID) {
				marked++
			}
		}
		return marked == len(held)
	})
	for _, w := range held {
		require.False(t, locktest.IsClosed(w.C))
	}
}

// P6, P10: if subscribing is denied waiters poll, and one line in the log says so.
func TestDeniedSubscription_PollsAndLogsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "unsubscribed", "on", ">pw", "~*", "resetchannels", "+@all")
	var log syncLog
	d := newDispatcher(t, server.Client(t, func(o *rueidis.ClientOption) {
		locktest.Steady(o)
		o.Username, o.Password = "unsubscribed", "pw"
	}), &log)
	a := targetOf(t, "a")
	holdKey(t, server, a)
	w := d.Wait(a)
	w.FoundHeld(time.Hour)
	redistest.Await(t, "a second try to subscribe", func() bool { return denials(t, server) > 1 })
	require.False(t, locktest.IsClosed(w.C))
	server.MustDo(t, "DEL", a.Key)
	redistest.Receive(t, "the wake-up of a poll", w.C)
	redistest.Await(t, "a report", func() bool { return strings.Count(log.String(), "\n") == 1 })
	require.Contains(t, log.String(), "lost: ")
	require.Contains(t, log.String(), "NOPERM")
}

// P7: a dispatcher that polls never subscribes; its waiters try after pauses that grow.
func TestPollerNeverSubscribes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newPoller(t, steady(t, server))
	w := d.Wait(targetOf(t, "a"))
	require.False(t, locktest.IsClosed(w.C))
	began := time.Now()
	for _, left := range []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour, time.Hour, 0, -time.Millisecond} {
		w.FoundHeld(left)
		redistest.Receive(t, "the next try", w.C)
	}
	// 2, 4, 8, 16 and 32 ms, half of each at least, then one that ends at once and one of 128 ms.
	require.GreaterOrEqual(t, time.Since(began), 31*time.Millisecond)
	require.Zero(t, d.Channels())
	require.Zero(t, server.CommandStats()["subscribe"].Calls)
	require.Zero(t, server.CommandStats()["evalsha"].Calls)
}

// P6: a wake-up can be had after a pause, whatever else happens, and not after the end.
func TestAfterWakesOnceThePauseIsOver(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d := newDispatcher(t, steady(t, server), io.Discard)
	w := subscribed(t, d, targetOf(t, "a"))
	w.FoundHeld(time.Hour)
	w.WakeAfter(time.Millisecond)
	redistest.Receive(t, "the wake-up", w.C)
	w.Close()
	w.WakeAfter(0)
	w.FoundHeld(0)
	probe := subscribed(t, d, targetOf(t, "b"))
	probe.WakeAfter(5 * time.Millisecond)
	redistest.Receive(t, "a later wake-up", probe.C)
	require.False(t, locktest.IsClosed(w.C))
}

// slowPoller polls a lock that is held for an hour. A poll takes until the test receives from polls.
type slowPoller struct {
	*wire.Runner

	polls chan struct{}
}

func (s slowPoller) RunByKey(ctx context.Context, _ wire.KeyedCall) []wire.KeyedReply {
	for range 2 { // it has begun, and it ends
		select {
		case s.polls <- struct{}{}:
		case <-ctx.Done():
		}
	}
	return []wire.KeyedReply{{Value: time.Hour.Milliseconds()}}
}

// P5, P6: a wake-up that was scheduled while a poll was under way comes, whatever the poll finds: the lock may be held by the try
// without a reply for whose repetition the waiter is to be woken.
func TestReplyOfAPollDelaysNoWakeUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, clock := steady(t, server), timers.New()
	s := slowPoller{wire.NewRunner(client), make(chan struct{})}
	d := notify.NewDispatcher(client, s, clock, monitor{io.Discard}, false)
	defer clock.Close()
	defer d.Close()
	w := subscribed(t, d, targetOf(t, "a"))
	w.FoundHeld(0)
	redistest.Receive(t, "the begin of a poll", s.polls)
	w.WakeAfter(50 * time.Millisecond)
	redistest.Receive(t, "the end of the poll", s.polls)
	redistest.Receive(t, "the wake-up", w.C)
}

// P10: a poll that is refused for now says nothing about the lock, and LastError returns the refusal; one
// that is denied wakes the waiter, so that its own try is denied.
func TestRefusedPollIsReportedAndDeniedPollWakes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "poller", "on", ">pw", "~*", "&*", "+@all")
	var log syncLog
	d := newDispatcher(t, server.Client(t, func(o *rueidis.ClientOption) {
		locktest.Steady(o)
		o.Username, o.Password = "poller", "pw"
	}), &log)
	a := targetOf(t, "a")
	holdKey(t, server, a)
	w := subscribed(t, d, a)
	server.MustDo(t, "CONFIG", "SET", "busy-reply-threshold", "20")
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		_, _ = server.Do("EVAL", "while true do end", 0) // killed below
	}()
	redistest.Await(t, "a server that is busy", func() bool {
		_, err := server.Do("GET", a.Key)
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	w.FoundHeld(0)
	redistest.Await(t, "a poll that is refused", func() bool { return w.LastError() != nil })
	require.ErrorIs(t, w.LastError(), errs.ErrRefused)
	require.False(t, locktest.IsClosed(w.C))
	server.MustDo(t, "SCRIPT", "KILL")
	<-busy
	polls := server.CommandStats()["evalsha"].Calls
	w.FoundHeld(0)
	redistest.Await(t, "a poll with a reply", func() bool { return server.CommandStats()["evalsha"].Calls > polls })
	require.NoError(t, w.LastError())
	require.False(t, locktest.IsClosed(w.C))
	server.MustDo(t, "ACL", "SETUSER", "poller", "-pttl")
	w.FoundHeld(0)
	redistest.Receive(t, "the wake-up of a poll that is denied", w.C)
}
