// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	goredisclient "github.com/redis/go-redis/v9"
)

// redislockClient is redislock with pauses between its tries that double from 1 to 64 ms.
func redislockClient() client { return client{"redislock", joinRedislock} }

type redislockProcess struct {
	client *goredisclient.Client
	locks  *redislock.Client
	lease  time.Duration
}

func joinRedislock(address string, lease time.Duration) (process, error) {
	c := pooled(address)
	return &redislockProcess{c, redislock.New(c), lease}, nil
}

func (p *redislockProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	pauses := redislock.ExponentialBackoff(time.Millisecond, 64*time.Millisecond)
	held, err := p.locks.Obtain(ctx, name, p.lease, &redislock.Options{RetryStrategy: pauses})
	return func() error { return held.Release(ctx) }, err
}

func (p *redislockProcess) close() error { return p.client.Close() }
