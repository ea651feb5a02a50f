// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// scale is how much is measured.
type scale struct {
	rounds         int
	warmUp, window time.Duration // of pairs
	lease          time.Duration // of pairs and hand-offs
	handOffs       int           // of a round
	crashes        int           // of each row, all at once
	crashLease     time.Duration // etcd's are whole seconds, from 2 on
	apart          bool          // servers on the first core, clients on the others
}

// row is a client on a store, with what was measured.
type row struct {
	store    store
	client   client
	server   *server
	pairs    map[int][]float64       // by goroutines: pairs a second, of each round
	handOffs map[int][]time.Duration // by waiters: from the call of unlock until the next process holds the lock
	crashes  []time.Duration         // from SIGKILL until the next process holds the lock
}

// pair lets goroutines of one process lock and unlock names of their own.
func (r *row) pair(c scale, goroutines int) error {
	p, err := r.client.join(r.server.address, c.lease)
	if err != nil {
		return err
	}
	done := make([]int, goroutines)
	began := time.Now()
	from, until := began.Add(c.warmUp), began.Add(c.warmUp+c.window)
	var running errgroup.Group
	for i := range done { // each element belongs to one goroutine until Wait returns
		name := "pair/" + strconv.Itoa(i)
		running.Go(func() error {
			for {
				if err := once(p, name, c.lease); err != nil {
					return err
				}
				if now := time.Now(); now.After(until) {
					return nil
				} else if now.After(from) {
					done[i]++
				}
			}
		})
	}
	if err := errors.Join(running.Wait(), p.close()); err != nil {
		return err
	}
	sum := 0
	for _, n := range done {
		sum += n
	}
	r.pairs[goroutines] = append(r.pairs[goroutines], float64(sum)/c.window.Seconds())
	return nil
}

// once locks and unlocks, with a context of its own as a request has.
func once(p process, name string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	unlock, err := p.lock(ctx, name)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return unlock()
}

// holding is a lock that a process holds.
type holding struct {
	process process
	unlock  func() error
	err     error
}

// handOff lets the holder unlock while so many processes wait, again and again.
func (r *row) handOff(c scale, waiters int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	// Each fleet has a name of its own: some clients leave a lock behind when a call of theirs is cancelled.
	name := fmt.Sprintf("hand-off/%s/%d/%d", strings.Map(letters, r.client.name), waiters, len(r.handOffs[waiters]))
	held := make(chan holding)
	var waiting sync.WaitGroup
	wait := func(p process) {
		waiting.Go(func() { // ends when it has handed its lock to held, or with ctx
			unlock, err := p.lock(ctx, name)
			select {
			case held <- holding{p, unlock, err}:
			case <-ctx.Done():
				if err == nil {
					_ = unlock()
				}
			}
		})
	}
	var all []process
	defer func() {
		cancel()
		waiting.Wait()
		for _, p := range all {
			err = errors.Join(err, p.close())
		}
	}()
	for range waiters + 1 {
		p, err := r.client.join(r.server.address, c.lease)
		if err != nil {
			return err
		}
		all = append(all, p)
		wait(p)
	}
	now := <-held
	pause(time.Duration(waiters) * 2 * time.Millisecond) // until all of them wait
	for i := range c.handOffs + 1 {
		if now.err != nil {
			return fmt.Errorf("lock: %w", now.err)
		}
		pause(110*time.Millisecond + rand.N(10*time.Millisecond))
		unlocked := make(chan error, 1)
		began := time.Now()
		go func() { unlocked <- now.unlock() }()
		next := <-held
		if i > 0 { // the first one warms up
			r.handOffs[waiters] = append(r.handOffs[waiters], time.Since(began))
		}
		if err := <-unlocked; err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		if i < c.handOffs {
			wait(now.process)
		}
		now = next
	}
	return now.unlock()
}

const clientEnv, addressEnv, leaseEnv, nameEnv = "STORES_CLIENT", "STORES_ADDRESS", "STORES_LEASE", "STORES_NAME"

// holdUntilKilled is a process of the system that holds a lock.
func holdUntilKilled(_ io.Reader, stdout io.Writer) {
	lease, err := time.ParseDuration(os.Getenv(leaseEnv))
	var p process
	if err == nil {
		p, err = clients()[os.Getenv(clientEnv)].join(os.Getenv(addressEnv), lease)
	}
	if err == nil {
		_, err = p.lock(context.Background(), os.Getenv(nameEnv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, _ = io.WriteString(stdout, "holds\n") // or the parent is gone
	select {}
}

// crash kills the holder of a lock at a random moment of its lease, and returns how long it takes until a waiter holds it.
func (r *row) crash(lease time.Duration, name string) (time.Duration, error) {
	holder, err := redistest.StartChild("holder", clientEnv+"="+r.client.name, addressEnv+"="+r.server.address,
		leaseEnv+"="+lease.String(), nameEnv+"="+name)
	if err != nil {
		return 0, err
	}
	defer holder.Close()
	if _, err := holder.ReadLine(patience); err != nil {
		return 0, fmt.Errorf("the holder: %w: %s", err, holder.Stderr())
	}
	p, err := r.client.join(r.server.address, lease)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience+2*lease)
	defer cancel()
	held := make(chan holding, 1)
	go func() {
		unlock, err := p.lock(ctx, name)
		held <- holding{p, unlock, err}
	}()
	pause(lease/5 + rand.N(lease/5*3)) // before a lease ends that nobody renews
	began := time.Now()
	holder.Kill()
	now := <-held
	took := time.Since(began)
	if now.err == nil {
		now.err = now.unlock()
	}
	return took, errors.Join(now.err, p.close())
}

// crashAll does it for all rows at once: it is waiting.
func crashAll(rows []*row, c scale) error {
	var running errgroup.Group
	running.SetLimit(48)
	var mu sync.Mutex // guards the crashes of all rows until Wait returns
	for n := range c.crashes {
		for i, r := range rows {
			running.Go(func() error {
				took, err := r.crash(c.crashLease, fmt.Sprintf("crash/%d/%d", i, n))
				mu.Lock()
				defer mu.Unlock()
				r.crashes = append(r.crashes, took)
				return wrap(r, err)
			})
		}
	}
	return running.Wait()
}

func wrap(r *row, err error) error {
	if err != nil {
		err = fmt.Errorf("%s, %s, %s: %w", r.store.name, r.store.form, r.client.name, err)
	}
	return err
}

// letters leaves of a text what each store takes in a name.
func letters(r rune) rune {
	if unicode.IsLetter(r) {
		return r
	}
	return -1
}

// quantile returns the value that the share q of all does not exceed.
func quantile[T time.Duration | float64](all []T, q float64) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
