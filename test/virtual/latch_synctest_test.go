// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// openSilently opens the round of a latch as its last count-down does, but publishes nothing: the message
// is lost.
func (f *fixture) openSilently(name string) {
	key := locktest.Keys(name).Latch()
	value := f.redis.HGet(key, "round")
	f.redis.HSet(key, "round", value[:19]+"o"+value[20:])
}

// P6: a message that is lost costs a waiter a second, and if a session waits at more than a thousand latches a
// millisecond for each of them, but never more than ten seconds.
func TestALostMessageOfALatchIsFoundWithinBounds(t *testing.T) {
	t.Parallel()
	const spare = 50 * time.Millisecond // of the batch, and of the ticks of the timers
	for _, latches := range []int{1, 1500}[:redistest.Rounds(1, 2)] {
		bound := max(time.Second, time.Duration(latches)*time.Millisecond)
		bubble(t, func(f *fixture) {
			t := f.T
			starter, _, closeStarter := f.session(t)
			defer closeStarter()
			s, _, closeWaiter := f.session(t)
			defer closeWaiter()
			ends := make(chan error, latches)
			rounds := make([]countdown.Round, latches)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			for i := range rounds {
				var err error
				rounds[i], err = countdown.New(starter, fmt.Sprint("latch/", i)).Start(t.Context(), 1)
				require.NoError(t, err)
				mine := countdown.New(s, fmt.Sprint("latch/", i)).RoundOf(rounds[i].ID())
				go func() { ends <- mine.Wait(ctx) }()
			}
			time.Sleep(2 * time.Second) // all listen, and poll now and then
			f.scripts.Store(0)
			const span = 3
			time.Sleep(span * time.Second)
			require.LessOrEqual(t, int(f.scripts.Load()), span*min(latches, 1000)*5/4+1, "polls in that time")
			const opened = 3
			for i := range min(opened, latches) {
				began := time.Now()
				f.openSilently(fmt.Sprint("latch/", i))
				require.NoError(t, <-ends)
				require.LessOrEqual(t, time.Since(began), bound+spare, "%d latches", latches)
			}
			giveUp()
			for range latches - min(opened, latches) {
				require.ErrorIs(t, <-ends, context.Canceled)
			}
		})
	}
}

// A round is kept while it has a waiter, and no longer than its time to be kept.
func TestARoundIsKeptWhileItHasAWaiter(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeSession := f.session(t)
		defer closeSession()
		r, err := countdown.New(s, "a", countdown.Keep(time.Minute)).Start(t.Context(), 1)
		require.NoError(t, err)
		ctx, giveUp := context.WithTimeout(t.Context(), time.Duration(redistest.Rounds(10, 60))*time.Minute)
		defer giveUp()
		require.ErrorIs(t, r.Wait(ctx), context.DeadlineExceeded)
		left, err := r.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, left)
		time.Sleep(time.Minute + time.Second)
		_, err = r.Count(t.Context())
		require.ErrorIs(t, err, signalbox.ErrRoundLost)
		require.False(t, strings.Contains(strings.Join(f.redis.Keys(), " "), ":latch"))
	})
}

// P6: a message that is faster than the reply to the first poll names a round that the waiter does not know
// yet. It is not believed, but it is not forgotten.
func TestAMessageBeforeTheFirstReplyLeadsToAPoll(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		starter, _, closeStarter := f.session(t)
		defer closeStarter()
		s, link, closeWaiter := f.session(t)
		defer closeWaiter()
		l, mine := countdown.New(starter, "a"), countdown.New(s, "a")
		open := func(r countdown.Round) {
			t.Helper()
			_, err := r.CountDown(t.Context(), "x")
			require.NoError(t, err)
		}
		first, err := l.Start(t.Context(), 1)
		require.NoError(t, err)
		ends := make(chan error, 1)
		go func() { ends <- mine.RoundOf(first.ID()).Wait(t.Context()) }()
		time.Sleep(time.Second)
		open(first)
		require.NoError(t, <-ends) // and the channel lingers

		const slow = 300 * time.Millisecond
		second, err := l.Start(t.Context(), 1)
		require.NoError(t, err)
		link.latency.Store(int64(slow))
		began := time.Now()
		go func() { ends <- mine.RoundOf(second.ID()).Wait(t.Context()) }()
		time.Sleep(slow + slow/2) // the poll was executed, and its reply is on its way
		link.latency.Store(0)
		open(second)
		require.NoError(t, <-ends)
		require.GreaterOrEqual(t, time.Since(began), 2*slow, "the message alone is no proof")
		require.Less(t, time.Since(began), 2*slow+100*time.Millisecond, "long before the next poll")
	})
}
