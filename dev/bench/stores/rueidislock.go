// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidislockClient is rueidis' own lock, with one key for each lock.
func rueidislockClient() client { return client{"rueidislock", joinRueidislock} }

type rueidislockProcess struct{ locks rueidislock.Locker }

func joinRueidislock(address string, lease time.Duration) (process, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{address}}, ClientBuilder: rueidis.NewClient,
		KeyValidity: lease, KeyMajority: 1, NoLoopTracking: true, TryNextAfter: 2 * time.Second,
	})
	return rueidislockProcess{locks}, err
}

func (p rueidislockProcess) lock(ctx context.Context, name string) (unlock func() error, err error) {
	_, cancel, err := p.locks.WithContext(ctx, name)
	return func() error { cancel(); return nil }, err
}

func (p rueidislockProcess) close() error {
	p.locks.Close()
	return nil
}
