// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/semaphore"
)

// pooled is how many permits there are of a semaphore, and wanted how many a member takes: two do not get theirs at the same time.
const pooled, wanted = 3, 2

// permits is some permits as a lock that somebody has where they are out.
type permits struct {
	semaphore.Permits

	pool *semaphore.Semaphore
}

func newPermits(s *signalbox.Session, name string, options ...signalbox.LockOption) permits {
	pool := semaphore.New(s, name, pooled, options...)
	return permits{pool.Permits(wanted), pool}
}

func (p permits) IsLocked(ctx context.Context) (bool, error) {
	free, err := p.pool.Available(ctx)
	return free < pooled, err
}

// ForceUnlock implements lock: permits cannot be taken away.
func (p permits) ForceUnlock(context.Context) error { return errors.ErrUnsupported }

// allKinds answers what oneOfEach does, and permits named f.
func allKinds(s *signalbox.Session, options ...signalbox.LockOption) []lock {
	return inOrder(append(oneOfEach(s, options...), newPermits(s, "f", options...)))
}
