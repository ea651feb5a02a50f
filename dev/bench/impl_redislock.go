// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redisLock is redislock with pauses between its tries that double from 1 to 64 ms.
func redisLock() implementation {
	return implementation{name: "redislock", start: startRedislock, excludes: true}
}

const firstBackoff, lastBackoff = time.Millisecond, 64 * time.Millisecond

type redislockProcess struct {
	client *redis.Client
	locks  *redislock.Client
	set    setup
}

func startRedislock(s setup) (process, error) {
	client := pooledClient(s)
	return &redislockProcess{client: client, locks: redislock.New(client), set: s}, nil
}

func (p *redislockProcess) close() error { return p.client.Close() }

type redislockLocker struct {
	process *redislockProcess
	name    string
	held    *redislock.Lock
	unlock  func() error
}

func (p *redislockProcess) locker(ctx context.Context, name string) locker {
	l := &redislockLocker{process: p, name: name}
	l.unlock = func() error { return l.held.Release(ctx) }
	return l
}

// Lock implements locker. Obtain gives up after a lease where its context has no deadline;
// then it is called again.
func (l *redislockLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	for {
		pauses := redislock.ExponentialBackoff(firstBackoff, lastBackoff)
		l.held, err = l.process.locks.Obtain(ctx, l.name, l.process.set.lease, &redislock.Options{RetryStrategy: pauses})
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return l.unlock, err
		}
	}
}
