// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// LastReply remembers the last reply that a waiter got for its lock, and turns it into the error when the wait ends.
// The waiter writes it; others may call Ended.
type LastReply struct {
	// Failures counts the tries that failed in a row. Only the waiter uses it.
	Failures int

	replied bool // reports that the server has replied to the waiter; only the waiter uses it

	mu struct {
		sync.Mutex
		held   bool   // reports that, by the last reply, another session holds the lock
		last   error  // the last refusal or failure, nil after a reply
		poller Poller // nil until SetPoller
	}
}

// Poller asks the server again on behalf of a waiter whose lock was held.
type Poller interface {
	// LastError returns why the last poll had no reply, or nil.
	LastError() error
}

// SetPoller sets what polls for the waiter from now on. Its last error is newer than the last reply.
func (l *LastReply) SetPoller(p Poller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.poller = p
}

// RecordHeld records the reply that another session holds the lock.
func (l *LastReply) RecordHeld() {
	l.Failures, l.replied = 0, true
	l.record(true, nil)
}

func (l *LastReply) record(held bool, last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.held, l.mu.last = held, last
}

// Record records how a call ended. It returns the error with which the waiter has to give up, or nil.
func (l *LastReply) Record(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errs.ErrHeld):
		l.RecordHeld()
		return nil
	case ctx.Err() != nil:
		return l.Ended(ctx) // the call was cut short: the reply before it is still the last one
	case err != nil && Judge(err) == Final && !(l.replied && errors.Is(err, errs.ErrDenied)):
		return err // a right that the waiter had before may come back
	}
	l.record(false, err)
	return nil
}

// AwaitConnection waits until r has its first connection. It records why an attempt to connect fails. It returns nil, or the error with
// which the waiter has to give up.
func (l *LastReply) AwaitConnection(ctx context.Context, r *Runner) error {
	err := r.late.await(ctx, func(failure error) { l.record(false, failure) })
	if err != nil && ctx.Err() != nil {
		return l.Ended(ctx)
	}
	return err
}

// Ended returns the error of a wait whose context has ended.
func (l *LastReply) Ended(ctx context.Context) error {
	err := errs.Ended(ctx)
	l.mu.Lock()
	held, last, poller := l.mu.held, l.mu.last, l.mu.poller
	l.mu.Unlock()
	if held && poller != nil {
		last = poller.LastError() // a later failure, or no reply at all
	}
	switch {
	case last != nil:
		return errs.Join(err, last)
	case held:
		return errs.WhileHeld(err)
	}
	return err
}
