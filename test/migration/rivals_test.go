// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"
)

const (
	life  = time.Minute           // of the locks of others: longer than any test
	pause = 20 * time.Millisecond // between their tries

	patience = 2 * time.Second // with one call of rueidislock
)

// goRedis opens a client of the kind that redsync and redislock use.
func (f *fixture) goRedis() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: f.server.Addr()})
	f.Cleanup(func() { require.NoError(f, client.Close()) })
	return client
}

// redsync is a service that locks with redsync, on one pool.
func (f *fixture) redsync() version {
	locks := redsync.New(goredis.NewPool(f.goRedis()))
	return func(ctx context.Context) (func() error, error) {
		mutex := locks.NewMutex(f.name, redsync.WithExpiry(life), redsync.WithRetryDelay(pause), redsync.WithTries(1<<30))
		return func() error {
			ok, err := mutex.UnlockContext(ctx)
			if err == nil && !ok {
				err = errors.New("not unlocked")
			}
			return err
		}, mutex.LockContext(ctx)
	}
}

// redislock is a service that locks with redislock.
func (f *fixture) redislock() version {
	locks := redislock.New(f.goRedis())
	return func(ctx context.Context) (func() error, error) {
		ctx, cancel := context.WithTimeout(ctx, life) // without a deadline, it ends after the life of the lock
		held, err := locks.Obtain(ctx, f.name, life, &redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)})
		return func() error {
			defer cancel()
			return held.Release(ctx)
		}, err
	}
}

// byHand is a service that locks with SET and a script of its own.
func (f *fixture) byHand() version {
	client := f.server.Client(f, nil)
	release := rueidis.NewLuaScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	serial := 0
	return func(ctx context.Context) (func() error, error) {
		serial++
		value := "by hand " + strconv.Itoa(serial)
		for {
			err := client.Do(ctx, client.B().Set().Key(f.name).Value(value).Nx().Px(life).Build()).Error()
			if !rueidis.IsRedisNil(err) {
				return func() error {
					n, err := release.Exec(ctx, client, []string{f.name}, []string{value}).AsInt64()
					if err == nil && n != 1 {
						err = errors.New("not released")
					}
					return err
				}, err
			}
			if err := sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
	}
}

// rueidislock is a service that locks with rueidislock, which needs majority of 2*majority-1 keys.
//
// It may wait for ever for a lock that is free; make bench counts how often. One cause is a try that lasts longer than
// TryNextAfter, which it takes back: with NOLOOP it gets no message of that. So the service gives up after a while, and
// calls again.
func (f *fixture) rueidislock(majority int32) version {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{f.server.Addr()}},
		KeyMajority:    majority,
		KeyValidity:    life,
		NoLoopTracking: true,
		TryNextAfter:   life,
	})
	require.NoError(f, err)
	f.Cleanup(locks.Close)
	return func(ctx context.Context) (func() error, error) {
		for {
			// No deadline: it would bound how long the lock is held.
			waiting, giveUp := context.WithCancel(ctx)
			timer := time.NewTimer(patience)
			go func() {
				select {
				case <-timer.C:
					giveUp()
				case <-waiting.Done():
				}
			}()
			_, cancel, err := locks.WithContext(waiting, f.name)
			release := func() error {
				if err == nil {
					cancel()
				}
				giveUp()
				return nil
			}
			if timer.Stop() || ctx.Err() != nil {
				return release, err
			}
			_ = release() // given up, before it acquired the lock or just after
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
