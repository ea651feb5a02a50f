// SPDX-License-Identifier: Apache-2.0

// Package observe calls the hooks of an observer. Package signalbox has the public words.
//
// # Rules
//
// A hook runs under no lock of the library, and on one of three goroutines: that of the call that it is about (Waiting,
// Acquired, Refused, Released, Forced, and Lost if Unlock finds the loss), the goroutine that renewed a batch and has notified the
// terms (Renewed), or one of its own (Lost otherwise; Polling and Subscribed, one after the other; those of a member of shards, see MemberReports). So a slow hook delays
// the call that it is about, and no other.
//
// Session.Close waits for the hooks of the last two sorts, within its limits: those of losses are counted here (pendingReports), the
// others run on goroutines that the keeper and the dispatcher wait for.
//
// A hook that panics must not leave a lock that no goroutine knows: the panic is recovered and logged.
//
// Without an observer every caller compares one pointer with nil, and nothing is allocated.
package observe

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

// Event is what a hook is called with. signalbox.Event has the same fields and documents them.
type Event struct {
	Kind    string
	Shared  bool
	Class   string
	Name    string
	Token   uint64
	Source  string
	Shard   string
	Outcome string
	Err     error
	Waited  time.Duration
	Held    time.Duration
	Left    time.Duration
	Lag     time.Duration
	Lease   time.Duration
	Leases  int
}

// Starter is a hook that returns the context that later hooks of the same call are given.
type Starter = func(context.Context, Event) context.Context

// Hook is every other hook.
type Hook = func(context.Context, Event)

// Observer is what a session calls; signalbox.Observer has the same hooks. It is never written to once a session has it.
type Observer struct {
	Waiting, Acquired                            Starter
	Refused, Released, Lost, Unconfirmed, Forced Hook
	Renewed, Polling, Subscribed                 Hook
	MemberJoined, MemberLeft                     Hook
	ShardGranted, ShardDraining                  Hook
	ShardSlow, ShardReleased                     Hook
	Names                                        bool

	panicked func(cause any, stack []byte)
	pending  *pendingReports
}

// With returns an Observer with the hooks of o that calls panicked with what a hook panicked with.
func (o *Observer) With(panicked func(cause any, stack []byte)) *Observer {
	with := *o
	with.panicked, with.pending = panicked, new(pendingReports)
	return &with
}

// Await blocks until every loss that Ending counted is reported, or until ctx ends. It is called with no observer, too.
func (o *Observer) Await(ctx context.Context) {
	if o != nil {
		o.pending.await(ctx)
	}
}

// Labels are the labels of a lock.
type Labels struct{ Kind, Class, Name string }

func (o *Observer) event(l Labels) Event {
	e := Event{Kind: l.Kind, Class: l.Class}
	if o.Names {
		e.Name = l.Name
	}
	return e
}

// OnForced reports that a lock was taken from its holder. It is called with no observer, too.
func (o *Observer) OnForced(ctx context.Context, l Labels) {
	if o != nil {
		o.call(o.Forced, ctx, o.event(l))
	}
}

// OnPolling reports that messages do not arrive, because of err, and waiters poll.
func (o *Observer) OnPolling(err error) {
	if o != nil {
		o.call(o.Polling, context.Background(), Event{Outcome: outcome(err), Err: err})
	}
}

// OnSubscribed reports that messages arrive again.
func (o *Observer) OnSubscribed() {
	if o != nil {
		o.call(o.Subscribed, context.Background(), Event{})
	}
}

// OnRenewed reports a batch of renewals: of how many leases, and how late the latest renewal is. err is why the batch
// failed.
func (o *Observer) OnRenewed(leases int, lag, lease time.Duration, err error) {
	if o != nil {
		e := Event{Leases: leases, Lag: lag, Lease: lease, Err: err}
		if err != nil {
			e.Outcome = outcome(err)
		}
		o.call(o.Renewed, context.Background(), e)
	}
}

func (o *Observer) call(hook Hook, ctx context.Context, e Event) { //nolint:revive // the hook is what is called with the rest
	if hook == nil {
		return
	}
	defer o.rescue()
	hook(ctx, e)
}

// start calls a Starter. Without one the context is ctx.
func (o *Observer) start(hook Starter, ctx context.Context, e Event) (next context.Context) { //nolint:revive // as in call
	if hook == nil {
		return ctx
	}
	defer o.rescue()
	defer func() {
		if next == nil {
			next = ctx // the hook returned none, or it panicked
		}
	}()
	return hook(ctx, e)
}

// rescue ends a panic. It is the deferred function itself, as recover needs.
func (o *Observer) rescue() {
	if cause := recover(); cause != nil {
		o.panicked(cause, debug.Stack())
	}
}

// pendingReports counts the losses that are not reported yet. A sync.WaitGroup would not do: Close may wait while a loss is
// counted, and waits no longer than its context.
type pendingReports struct {
	mu      sync.Mutex
	count   int
	drained chan struct{} // closed when count is 0; nil while no goroutine waits for that
}

func (p *pendingReports) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
}

func (p *pendingReports) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count--; p.count == 0 && p.drained != nil {
		close(p.drained)
		p.drained = nil
	}
}

// await blocks until nothing is pending, or until ctx ends.
func (p *pendingReports) await(ctx context.Context) {
	p.mu.Lock()
	if p.count > 0 && p.drained == nil {
		p.drained = make(chan struct{})
	}
	drained := p.drained
	p.mu.Unlock()
	if drained == nil {
		return
	}
	select {
	case <-drained:
	case <-ctx.Done():
	}
}
