// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// combined is a Combiner of acquires, and what its callers were answered.
type combined struct {
	*Combiner

	server *redistest.Server
	proxy  *redistest.Proxy
	wg     sync.WaitGroup
	mu     struct {
		sync.Mutex
		outcomes map[string]Outcome // by key
	}
}

func newCombined(t *testing.T) *combined {
	t.Helper()
	c := &combined{server: redistest.Start(t)}
	c.proxy = redistest.NewProxy(t, c.server.Addr())
	client := c.proxy.Client(t, func(o *rueidis.ClientOption) {
		o.AlwaysPipelining, o.DisableCache = true, true
		o.PipelineMultiplex = -1 // one connection, which is made before the server freezes
	})
	c.Combiner = NewCombiner(NewRunner(client), scripts.ReentrantAcquire)
	t.Cleanup(c.Close)
	c.mu.outcomes = make(map[string]Outcome)
	_, err := c.Run(t.Context(), []string{"first"}, c.args("first")...)
	require.NoError(t, err)
	c.runner.trip.estimate.Store(int64(near)) // however slow this machine is: callers wait until a call ends
	c.proxy.ResetCount()
	return c
}

// args are those of an acquire of key, which is told by its hold.
func (*combined) args(key string) []string {
	return []string{fmt.Sprintf("%-41s", key), "60000", "9999999999999999", ""}
}

// run takes keys, each for a caller of its own.
func (c *combined) run(ctx context.Context, keys ...string) {
	for _, key := range keys {
		c.wg.Go(func() {
			var o Outcome
			o.Reply, o.Err = c.Run(ctx, []string{key}, c.args(key)...)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.mu.outcomes[key] = o
		})
	}
}

// waiting polls until so many calls are under way and so many callers queue.
func (c *combined) waiting(t *testing.T, inFlight, queued int) {
	t.Helper()
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for range 20_000 {
		c.Combiner.mu.Lock()
		done := c.Combiner.mu.inFlight == inFlight && c.Combiner.mu.queue.size == queued
		c.Combiner.mu.Unlock()
		if done {
			return
		}
		<-pause.C
	}
	require.FailNow(t, "they do not queue")
}

func keys(name string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(name, i)
	}
	return all
}

func TestCallersWhoQueueGoTogetherAndEachHasItsOwnReply(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	c.server.Freeze()
	c.run(t.Context(), keys("alone", maxInFlight)...)
	c.waiting(t, maxInFlight, 0)
	c.run(t.Context(), keys("together", 2*maxTogether)...)
	c.waiting(t, maxInFlight, 2*maxTogether)
	c.server.Thaw()
	c.wg.Wait()
	require.LessOrEqual(t, c.proxy.Requests(), maxInFlight+3)
	require.Len(t, c.mu.outcomes, maxInFlight+2*maxTogether)
	for key, o := range c.mu.outcomes {
		require.NoError(t, o.Err, key)
		require.Equal(t, "sb1r"+o.Reply.Text(0)+c.args(key)[0], c.server.MustDo(t, "GET", key))
	}
	c.waiting(t, 0, 0)
}

func TestOneBadKeySpoilsNobodyElsesReply(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	c.server.MustDo(t, "RPUSH", "together1", "x")
	c.server.MustDo(t, "SET", "together2", "sb1r"+fmt.Sprintf("%016d%-41s%s", 1, "somebody", strings.Repeat("-", 22)), "PX", 60_000)
	c.server.Freeze()
	c.run(t.Context(), keys("alone", maxInFlight)...)
	c.waiting(t, maxInFlight, 0)
	c.run(t.Context(), keys("together", 4)...)
	c.waiting(t, maxInFlight, 4)
	c.server.Thaw()
	c.wg.Wait()
	require.ErrorIs(t, c.mu.outcomes["together1"].Err, errs.ErrWrongKind)
	held := c.mu.outcomes["together2"]
	require.NoError(t, held.Err)
	require.Equal(t, int64(0), held.Reply.Int(0))
	require.Positive(t, held.Reply.Int(1))
	for _, key := range []string{"together0", "together3"} {
		o := c.mu.outcomes[key]
		require.NoError(t, o.Err)
		require.Len(t, o.Reply.Text(0), 16)
	}
}

func TestWhoGivesUpInTheQueueSendsNothing(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	c.server.Freeze()
	c.run(t.Context(), keys("alone", maxInFlight)...)
	c.waiting(t, maxInFlight, 0)
	impatient, cancel := context.WithCancel(t.Context())
	c.run(impatient, keys("gone", 3)...)
	c.run(t.Context(), keys("together", 3)...)
	c.waiting(t, maxInFlight, 6)
	cancel()
	c.waiting(t, maxInFlight, 3)
	c.server.Thaw()
	c.wg.Wait()
	for _, key := range keys("gone", 3) {
		require.ErrorIs(t, c.mu.outcomes[key].Err, ErrNotSent)
		require.ErrorIs(t, c.mu.outcomes[key].Err, context.Canceled)
		require.Equal(t, Final, Judge(c.mu.outcomes[key].Err), "nothing is to be undone")
		require.Nil(t, c.server.MustDo(t, "GET", key))
	}
	for _, key := range keys("together", 3) {
		require.NoError(t, c.mu.outcomes[key].Err)
	}
}

func TestWhoGivesUpOnTheWayDoesNotKnowTheOutcome(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	c.server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	c.run(ctx, "alone0")
	c.waiting(t, 1, 0)
	cancel()
	c.wg.Wait()
	require.ErrorIs(t, c.mu.outcomes["alone0"].Err, context.Canceled)
	require.Equal(t, Unknown, Judge(c.mu.outcomes["alone0"].Err))
	c.server.Thaw()
}

func TestManyCallersOfACombinerAreAllAnswered(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	for round := range 20 {
		c.run(t.Context(), keys(fmt.Sprint("round", round, "key"), 100)...)
	}
	c.wg.Wait()
	require.Len(t, c.mu.outcomes, 2000)
	for key, o := range c.mu.outcomes {
		require.NoError(t, o.Err, key)
	}
	require.Len(t, c.server.Keys("*"), 2001)
	c.waiting(t, 0, 0)
}

func TestCloseEndsTheCallsThatGoForMany(t *testing.T) {
	t.Parallel()
	c := newCombined(t)
	c.server.Freeze()
	ctx, cancel := context.WithCancel(t.Context())
	c.run(ctx, keys("alone", maxInFlight)...)
	c.waiting(t, maxInFlight, 0)
	c.run(t.Context(), keys("together", 3)...)
	c.waiting(t, maxInFlight, 3)
	cancel() // those alone land, and the others go
	c.waiting(t, 1, 0)
	c.Close()
	c.wg.Wait()
	for _, key := range keys("together", 3) {
		require.ErrorIs(t, c.mu.outcomes[key].Err, errs.ErrClosed)
		require.NotErrorIs(t, c.mu.outcomes[key].Err, context.Canceled, "the callers' contexts have not ended")
	}
	c.server.Thaw()
}
