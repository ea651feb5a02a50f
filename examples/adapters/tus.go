// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Tus locks uploads over all processes of a tus server: composer.UseLocker(adapters.Tus{Session: session}).
type Tus struct{ Session *signalbox.Session }

var _ handler.Locker = Tus{}

// NewLock implements handler.Locker.
func (l Tus) NewLock(id string) (handler.Lock, error) {
	mu := fair.New(l.Session, "upload/"+id) // fair: each request of a process has a ticket that the holder sees
	return &tusLock{mu: mu}, mu.Check()
}

type tusLock struct {
	mu    *fair.Lock
	lease signalbox.Lease
}

func (l *tusLock) Lock(ctx context.Context, requestUnlock func()) (err error) {
	l.lease, err = l.mu.Lock(ctx)
	if err != nil && ctx.Err() != nil {
		return handler.ErrLockTimeout
	}
	if err == nil {
		go l.watch(requestUnlock) //nolint:contextcheck // it ends with the lease
	}
	return err
}

// watch asks the upload to stop when another request waits for it, within a second, or when the lease is lost. It ends with
// the lease.
func (l *tusLock) watch(requestUnlock func()) {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		select {
		case <-l.lease.Done():
			if errors.Is(l.lease.Err(), signalbox.ErrLost) {
				requestUnlock()
			}
			return
		case <-poll.C:
			for _, err := range l.mu.Waiters(l.lease.Bind(context.Background())) {
				if err == nil {
					requestUnlock()
					return
				}
			}
		}
	}
}

func (l *tusLock) Unlock() error { return l.lease.Unlock() }
