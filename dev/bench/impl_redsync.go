// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLock is redsync on one server, which tries until it has the lock, after pauses of 50
// to 250 ms, its default.
func redsyncLock() implementation {
	return implementation{name: "redsync", start: startRedsync, excludes: true, sends: []string{"set"}}
}

// redsyncTries is for ever.
const redsyncTries = 1 << 30

type redsyncProcess struct {
	client *redis.Client
	sync   *redsync.Redsync
	set    setup
}

func startRedsync(s setup) (process, error) {
	client := pooledClient(s)
	return &redsyncProcess{client: client, sync: redsync.New(goredis.NewPool(client)), set: s}, nil
}

func (p *redsyncProcess) close() error { return p.client.Close() }

type redsyncLocker struct {
	mutex  *redsync.Mutex
	unlock func() error
}

func (p *redsyncProcess) locker(ctx context.Context, name string) locker {
	l := &redsyncLocker{mutex: p.sync.NewMutex(name, redsync.WithTries(redsyncTries), redsync.WithExpiry(p.set.lease))}
	l.unlock = func() error {
		ok, err := l.mutex.UnlockContext(ctx)
		if err == nil && !ok {
			err = errors.New("redsync: not unlocked")
		}
		return err
	}
	return l
}

// Lock implements locker.
func (l *redsyncLocker) Lock(ctx context.Context) (unlock func() error, err error) {
	return l.unlock, l.mutex.LockContext(ctx)
}
