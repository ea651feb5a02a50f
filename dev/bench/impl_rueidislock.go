// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock is rueidis' own lock in its fastest form: one key a lock instead of three, no
// notice of its own writes, and no look at a lock before 2 s without one. It renews at the
// half of a lease, which is its default.
func rueidisLock() implementation {
	return implementation{name: "rueidislock", start: startRueidislock, excludes: true}
}

type rueidislockProcess struct {
	locks rueidislock.Locker
}

func startRueidislock(s setup) (process, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidisOption(s),
		ClientBuilder:  rueidis.NewClient,
		KeyValidity:    s.lease,
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   2 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &rueidislockProcess{locks: locks}, nil
}

func (p *rueidislockProcess) close() error {
	p.locks.Close()
	return nil
}

type rueidislockLocker struct {
	process *rueidislockProcess
	name    string
	cancel  context.CancelFunc
	unlock  func() error
}

func (p *rueidislockProcess) locker(_ context.Context, name string) locker {
	l := &rueidislockLocker{process: p, name: name}
	l.unlock = func() error {
		l.cancel()
		return nil
	}
	return l
}

// Lock implements locker.
func (l *rueidislockLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	_, l.cancel, err = l.process.locks.WithContext(ctx, l.name)
	return l.unlock, err
}

type rueidislockKeeper struct {
	process *rueidislockProcess
	held    []context.Context // cancelled by a loss
	cancel  []context.CancelFunc
}

func (p *rueidislockProcess) keeper(n int) keeper {
	return &rueidislockKeeper{process: p, held: make([]context.Context, n), cancel: make([]context.CancelFunc, n)}
}

func (k *rueidislockKeeper) keep(ctx context.Context, i int, name string) error {
	held, cancel, err := k.process.locks.WithContext(ctx, name)
	k.held[i], k.cancel[i] = held, cancel //nolint:fatcontext // a context for each lock, none within another
	return err
}

func (k *rueidislockKeeper) lost() int {
	n := 0
	for _, ctx := range k.held {
		if ctx.Err() != nil {
			n++
		}
	}
	return n
}

func (k *rueidislockKeeper) drop(i int) error {
	k.cancel[i]()
	return nil
}
