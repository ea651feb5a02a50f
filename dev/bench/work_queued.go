// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// queued is what many waiters of a fair lock cost the server: its time in scripts for
// one hand-off, which is the release that grants the lock to the next, and the enter of the last holder.
func queued(b *bench) ([]table, error) {
	t := table{
		title: "The server's time for a hand-off, by waiters, fair lock",
		note: "The server's time in all scripts for one hand-off, by its own statistics: a release, which grants the lock to the first " +
			"waiter, and a new ticket at the end of the queue. All waiters are goroutines of two processes.",
		header: []string{"waiters", "hand-offs", "server time/hand-off", "to the first row"},
	}
	var first float64
	for _, n := range []int{b.scale.fewQueued, b.scale.manyQueued} {
		ops, each, err := b.handOffsWithQueue(n)
		if err != nil {
			return nil, err
		}
		if first == 0 {
			first = each
		}
		t.rows = append(t.rows, []string{number(float64(n)), number(float64(ops)), span(each), share(each / first)})
	}
	return []table{t}, nil
}

// handOffsWithQueue measures hand-offs for a window while n wait, and returns the server's seconds for
// each.
func (b *bench) handOffsWithQueue(n int) (ops int, each float64, err error) {
	if err := b.clear(); err != nil {
		return 0, 0, err
	}
	processes, end, err := b.start(signalboxFair(), 2, setup{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, stop := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(errStopped)

	first, err := processes[0].locker(ctx, "queued").Lock(ctx)
	if err != nil {
		return 0, 0, err
	}
	passed := make(chan error, n)
	for i := range n {
		l := processes[i%2].locker(ctx, "queued")
		running.Go(func() { queueAgainAndAgain(ctx, l, passed) })
	}
	if err := b.awaitTickets("sb:{queued}:queue", n); err != nil {
		return 0, 0, err
	}
	before := b.server.CommandStats()
	if err := first(); err != nil {
		return 0, 0, err
	}
	for began := time.Now(); time.Since(began) < b.scale.contended; ops++ {
		if err := <-passed; err != nil {
			return 0, 0, err
		}
	}
	return ops, scriptTime(before, b.server.CommandStats()).Seconds() / float64(ops), nil
}

// queueAgainAndAgain queues again and again.
func queueAgainAndAgain(ctx context.Context, l locker, passed chan<- error) {
	for ctx.Err() == nil {
		unlock, err := l.Lock(ctx)
		if err == nil {
			err = unlock()
		}
		if err = over(ctx, err); err != nil || ctx.Err() == nil {
			select {
			case passed <- err:
			case <-ctx.Done():
			}
		}
	}
}

// awaitTickets waits until n tickets are in a queue.
func (b *bench) awaitTickets(key string, n int) error {
	deadline := time.Now().Add(time.Minute)
	for {
		reply, err := b.server.Do("ZCARD", key)
		if err != nil {
			return err
		}
		if fmt.Sprint(reply) == strconv.Itoa(n) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v of %d wait in the queue", reply, n)
		}
		pause(context.Background(), 5*time.Millisecond)
	}
}

// scriptTime returns the server's time in scripts between two readings of its statistics.
func scriptTime(before, after map[string]redistest.CommandStat) time.Duration {
	return after["evalsha"].Time - before["evalsha"].Time + after["eval"].Time - before["eval"].Time
}

// scriptCalls returns how many scripts ran between two readings of its statistics.
func scriptCalls(before, after map[string]redistest.CommandStat) int64 {
	return after["evalsha"].Calls - before["evalsha"].Calls + after["eval"].Calls - before["eval"].Calls
}
