// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
)

// latch is how long a latch takes to open for many that wait for it, and what counting down costs the server when many
// ids were counted before.
func latch(b *bench) ([]table, error) {
	opening := table{
		title: "Goroutines of one process wait for a latch",
		note: "From the call of the last CountDown, in another process, to the return of the first and of the last Wait; medians of the rounds, " +
			"and the longest. Requests are those of both processes in the opening alone.",
		header: []string{"waiting", "first returns in", "all return in", "at the longest", "requests"},
	}
	for _, n := range []int{b.scale.parties / 10, b.scale.parties} {
		var first, last, requested []float64
		for range b.scale.rounds {
			one, err := b.openLatch(n)
			if err != nil {
				return nil, err
			}
			first, last, requested = append(first, one.first.Seconds()), append(last, one.last.Seconds()), append(requested, one.requests)
		}
		opening.rows = append(opening.rows, []string{
			number(float64(n)), span(median(first)), span(median(last)), span(slices.Max(last)), number(median(requested)),
		})
	}
	counting, err := b.countLatch()
	return []table{opening, counting}, err
}

// latchOpening is one opening.
type latchOpening struct {
	first, last time.Duration
	requests    float64
}

// openLatch lets n goroutines wait, and opens their round.
func (b *bench) openLatch(n int) (one latchOpening, err error) {
	if err := b.clear(); err != nil {
		return one, err
	}
	sessions, end, err := b.sessions(2)
	if err != nil {
		return one, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	round, err := countdown.New(sessions[0], "opening").Start(ctx, 1)
	if err != nil {
		return one, err
	}
	theirs := countdown.New(sessions[1], "opening").RoundOf(round.ID())
	var waiting, ready sync.WaitGroup
	awake, errs := make([]time.Time, n), make([]error, n)
	ready.Add(n)
	for i := range n {
		waiting.Go(func() {
			ready.Done()
			errs[i] = theirs.Wait(ctx)
			awake[i] = time.Now()
		})
	}
	ready.Wait()
	pause(ctx, b.scale.quietFor) // they listen
	m, err := begin(b.server)
	if err != nil {
		return one, err
	}
	began := time.Now()
	if _, err := round.CountDown(ctx, "the last"); err != nil {
		return one, err
	}
	waiting.Wait()
	used, err := m.end(nil)
	if err = errors.Join(append(errs, err)...); err != nil {
		return one, err
	}
	one.requests, one.first = float64(used.requests), time.Minute
	for _, at := range awake {
		one.first, one.last = min(one.first, at.Sub(began)), max(one.last, at.Sub(began))
	}
	return one, nil
}

// countLatch measures what a count-down costs the server behind few and behind many others.
func (b *bench) countLatch() (table, error) {
	t := table{
		title:  "The server's time for a count-down, by ids counted before",
		note:   "The server's time in scripts for one CountDown of a count-down latch, by its own statistics.",
		header: []string{"counted before", "count-downs", "server time/count-down", "to the first row"},
	}
	if err := b.clear(); err != nil {
		return t, err
	}
	sessions, end, err := b.sessions(1)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, end()) }()
	ctx := context.Background()
	round, err := countdown.New(sessions[0], "counting").Start(ctx, countdown.MaxCount)
	if err != nil {
		return t, err
	}
	counted := 0
	count := func(n int) error {
		err := spread(ctx, n, func(ctx context.Context, i int) error {
			_, err := round.CountDown(ctx, numbered("id/", counted+i))
			return err
		})
		counted += n
		return err
	}
	var first float64
	for _, behind := range []int{0, b.scale.counted} {
		if err := count(behind - counted); err != nil {
			return t, err
		}
		ops := b.scale.counted / 10
		before := b.server.CommandStats()
		if err := count(ops); err != nil {
			return t, err
		}
		each := scriptTime(before, b.server.CommandStats()).Seconds() / float64(ops)
		if first == 0 {
			first = each
		}
		t.rows = append(t.rows, []string{number(float64(behind)), number(float64(ops)), span(each), share(each / first)})
	}
	return t, err
}

// sessions returns n sessions, each with a client of its own, and how to end them.
func (b *bench) sessions(n int) ([]*signalbox.Session, func() error, error) {
	processes, end, err := b.start(signalboxLock(), n, setup{})
	if err != nil {
		return nil, nil, err
	}
	all := make([]*signalbox.Session, n)
	for i, p := range processes {
		own, ok := p.(*signalboxProcess)
		if !ok {
			return nil, nil, errors.Join(errors.New("a process of another kind"), end())
		}
		all[i] = own.session
	}
	return all, end, nil
}
