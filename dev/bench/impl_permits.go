// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	xsync "golang.org/x/sync/semaphore"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permits is how many may hold a semaphore at once in the works that have one.
const permits = 8

const permitsName = "signalbox semaphore"

// permitImplementations are what semaphores of so many processes are compared with. No Go library for Redis has a
// semaphore that is kept up, so that the peers are locks, one for each permit; see slot.
func permitImplementations(processes int) []implementation {
	return []implementation{permitsLimit(permits / processes), signalboxPermits(permits), pollingPermits(), rueidisLock(), redisLock()}
}

// permitsLimit is a semaphore in memory that no server knows of: each process has a share of the permits to itself.
func permitsLimit(share int) implementation {
	return implementation{name: limitName, start: func(setup) (process, error) {
		return permitsInMemory{xsync.NewWeighted(int64(share))}, nil
	}}
}

type permitsInMemory struct{ *xsync.Weighted }

func (p permitsInMemory) locker(context.Context, string) locker { return p }

func (permitsInMemory) close() error { return nil }

// Lock implements locker.
func (p permitsInMemory) Lock(ctx context.Context) (func() error, error) {
	if err := p.Acquire(ctx, 1); err != nil {
		return nil, err //nolint:wrapcheck // the context's
	}
	return func() error {
		p.Release(1)
		return nil
	}, nil
}

// slot returns what goroutine i of an implementation takes a permit of. The peers have a lock for each permit, and each
// goroutine its own of them from the beginning: the best that they can do, and less than a semaphore, since
// one waits though another permit is free.
func slot(impl implementation, i int) string {
	if impl.name == permitsName || impl.name == pollingName {
		return "shared"
	}
	return numbered("shared:", i%permits)
}

// signalboxPermits is the semaphore of this project.
func signalboxPermits(capacity int) implementation {
	return ours(permitsName, func(s *signalbox.Session, name string) ownLock {
		return onePermit{semaphore.New(s, name, capacity)}
	})
}

// onePermit is a semaphore that is used as a lock.
type onePermit struct{ sem *semaphore.Semaphore }

// Lock implements ownLock.
func (p onePermit) Lock(ctx context.Context) (signalbox.Lease, error) { return p.sem.Acquire(ctx, 1) }

const pollingName = "polling SETs"

// pollingPermits is what one writes by hand: a key for each permit, SET NX PX on one after the other from a random one
// on, and a pause of 1 to 16 ms where none is free.
func pollingPermits() implementation {
	start := func(s setup) (process, error) {
		client, err := tunedClient(s)
		if err != nil {
			return nil, err
		}
		digest, err := load(client, unlockScript)
		if err != nil {
			client.Close()
			return nil, err
		}
		return &pollingProcess{client, digest, s.lease}, nil
	}
	return implementation{name: pollingName, start: start, excludes: true, sends: []string{"set"}}
}

type pollingProcess struct {
	client       rueidis.Client
	unlockDigest string // the digest of unlockScript
	lease        time.Duration
}

func (p *pollingProcess) close() error {
	p.client.Close()
	return nil
}

type pollingLocker struct {
	process *pollingProcess
	name    string
	value   string
}

func (p *pollingProcess) locker(_ context.Context, name string) locker {
	return &pollingLocker{p, name, strconv.FormatUint(rand.Uint64(), 36)}
}

// Lock implements locker.
func (l *pollingLocker) Lock(ctx context.Context) (func() error, error) {
	c := l.process.client
	for {
		from := rand.N(permits)
		for i := range permits {
			key := numbered(l.name+":", (from+i)%permits)
			err := c.Do(ctx, c.B().Set().Key(key).Value(l.value).Nx().Px(l.process.lease).Build()).Error()
			if err == nil {
				return func() error { return l.release(ctx, key) }, nil
			}
			if !rueidis.IsRedisNil(err) {
				return nil, fmt.Errorf("polling: %w", err)
			}
		}
		pause(ctx, time.Millisecond+rand.N(15*time.Millisecond))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (l *pollingLocker) release(ctx context.Context, key string) error {
	p := l.process
	n, err := p.client.Do(ctx, p.client.B().Evalsha().Sha1(p.unlockDigest).Numkeys(1).Key(key).Arg(l.value).Build()).AsInt64()
	if err == nil && n != 1 {
		err = errors.New("the key was gone")
	}
	return err
}
