// SPDX-License-Identifier: Apache-2.0

package gocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// leaderTimeout is how long IsLeader waits for the server: a scheduler waits for it at every tick.
const leaderTimeout = time.Second

// Elector makes one process run all jobs: the one that has acquired the lock of the name. So all schedulers of the name
// must have the same jobs: one that only another scheduler has never runs. It is safe for concurrent use.
type Elector struct {
	lock *fair.Lock

	mu      sync.Mutex
	lease   signalbox.Lease // guarded by mu; the zero Lease if this process does not lead
	request *leaderRequest  // guarded by mu; nil unless the server is asked
}

// leaderRequest is a request for the lock, for all calls that wait for it.
type leaderRequest struct {
	replied  chan struct{} // closed when the server has replied
	err      error         // written before replied is closed
	resigned bool          // guarded by mu of the Elector: if the request acquires a lease, the lease is released
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector on the fair lock of that name. It sends nothing. The options are those
// of fair.New; signalbox.WithRenewedLease sets how long a leader that died keeps the others from leading.
func NewElector(s *signalbox.Session, name string, options ...signalbox.LockOption) *Elector {
	return &Elector{lock: fair.New(s, name, options...)}
}

// IsLeader returns nil if this process is the leader. If there is no leader, this process becomes it.
// It takes no round trip for a leader, and one for others. The error is signalbox.ErrHeld if another
// process is the leader, or says why the server could not be asked: ErrNoReply after a second.
func (e *Elector) IsLeader(ctx context.Context) error {
	if e == nil || e.lock == nil || ctx == nil {
		return signalbox.ErrBadOption
	}
	a := e.currentRequest(ctx)
	if a == nil {
		return nil
	}
	timeout := time.NewTimer(leaderTimeout)
	defer timeout.Stop()
	select {
	case <-a.replied:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return fmt.Errorf("signalbox: is leader: %w after %v", signalbox.ErrNoReply, leaderTimeout)
	}
}

// currentRequest returns the request that is under way, a new one, or nil if this process leads. The request belongs to no call: it
// ends when the server replies, or the client gives up. The session counts it, so Close waits for it.
func (e *Elector) currentRequest(ctx context.Context) *leaderRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lease.Err() == nil {
		return nil
	}
	if e.request != nil {
		return e.request
	}
	a := &leaderRequest{replied: make(chan struct{})}
	e.request = a
	go func() {
		lease, err := signalbox.Lease{}, errEnded
		defer func() { e.end(a, lease, err) }() // deferred: a hook of an observer may end the goroutine
		lease, err = e.lock.TryLock(context.WithoutCancel(ctx))
	}()
	return a
}

// errEnded is the error of a request whose goroutine was ended.
var errEnded = errors.New("signalbox: is leader: a hook of the session's observer ended the goroutine of the request (runtime.Goexit)")

// end ends a request, with the lease or the error of its TryLock.
func (e *Elector) end(a *leaderRequest, lease signalbox.Lease, err error) {
	defer close(a.replied)
	e.mu.Lock()
	resigned := a.resigned
	if e.request == a {
		e.request = nil
	}
	if err == nil && !resigned {
		e.lease = lease
	}
	e.mu.Unlock()
	if err == nil && resigned {
		_ = lease.Unlock()
		err = signalbox.ErrReleased
	}
	a.err = err
}

// Resign gives the leadership up, so that the next process that asks becomes the leader. Call it at
// shutdown, after the scheduler has ended. The error is that of signalbox.Lease.Unlock; nil if this
// process is not the leader.
func (e *Elector) Resign() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	lease := e.lease
	e.lease = signalbox.Lease{}
	if e.request != nil {
		e.request.resigned = true
		e.request = nil
	}
	e.mu.Unlock()
	if lease.Err() == nil {
		return lease.Unlock()
	}
	return nil
}
