// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredisclient "github.com/redis/go-redis/v9"
)

// redsyncClient is redsync on one server, which tries again after pauses of 50 to 250 ms, its default.
func redsyncClient() client { return client{"redsync", joinRedsync} }

type redsyncProcess struct {
	client *goredisclient.Client
	sync   *redsync.Redsync
	lease  time.Duration
}

func joinRedsync(address string, lease time.Duration) (process, error) {
	c := pooled(address)
	return &redsyncProcess{c, redsync.New(goredis.NewPool(c)), lease}, nil
}

// pooled returns a client of go-redis with a connection for each goroutine of the largest work.
func pooled(address string) *goredisclient.Client {
	return goredisclient.NewClient(&goredisclient.Options{Addr: address, PoolSize: 64})
}

func (p *redsyncProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	const forever = 1 << 30
	m := p.sync.NewMutex(name, redsync.WithTries(forever), redsync.WithExpiry(p.lease))
	return func() error {
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			err = errors.New("redsync: not unlocked")
		}
		return err
	}, m.LockContext(ctx)
}

func (p *redsyncProcess) close() error { return p.client.Close() }
