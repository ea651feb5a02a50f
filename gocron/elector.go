// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Elector makes one process run all jobs: the one that has acquired the lock of the name. It is safe
// for concurrent use.
type Elector struct {
	lock *fair.Lock

	mu    sync.Mutex
	lease signalbox.Lease // guarded by mu; the zero Lease if this process does not lead
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector on the fair lock of that name. It sends nothing. The options are those
// of fair.New; signalbox.WithRenewedLease sets how long a leader that died keeps the others from leading.
func NewElector(s *signalbox.Session, name string, options ...signalbox.LockOption) *Elector {
	return &Elector{lock: fair.New(s, name, options...)}
}

// IsLeader returns nil if this process is the leader. If there is no leader, this process becomes it.
// It takes no round trip for a leader, and one for others. The error is signalbox.ErrHeld if another
// process is the leader, or says why the server could not be asked.
func (e *Elector) IsLeader(ctx context.Context) error {
	if e == nil || e.lock == nil {
		return signalbox.ErrBadOption
	}
	e.mu.Lock() // for one try: the schedulers of one process ask one after the other
	defer e.mu.Unlock()
	if e.lease.Err() == nil {
		return nil
	}
	lease, err := e.lock.TryLock(ctx)
	if err != nil {
		return err
	}
	e.lease = lease
	return nil
}

// Resign gives the leadership up, so that the next process that asks becomes the leader. Call it at
// shutdown, after the scheduler has ended. The error is that of signalbox.Lease.Unlock; nil if this
// process is not the leader.
func (e *Elector) Resign() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	lease := e.lease
	e.lease = signalbox.Lease{}
	if lease.Err() != nil {
		return nil
	}
	return lease.Unlock()
}
