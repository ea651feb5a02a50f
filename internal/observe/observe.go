// SPDX-License-Identifier: Apache-2.0

// Package observe calls the hooks of observers. Package signalbox has the public words.
//
// # Rules
//
// The hooks of one observer are a observer. Each observer is called as if it were alone: with the context that it returned itself, and
// whatever another observer does.
//
// A hook runs under no lock of the library. Those of a call run on its goroutine (Waiting, Acquired, Refused, Released, Unconfirmed,
// Forced, and Lost if Unlock finds the loss), one observer after the other; if one blocks for longer than patience, those behind it are called on
// another goroutine (round). Lost otherwise has a goroutine for each loss. The others (Renewed, Polling, Subscribed, and those of a member of
// shards) are added to a stream for each observer, whose hooks are called in order. So a slow hook delays the call that it is about, later
// hooks of its own stream, and other observers by patience at most.
//
// Session.Close waits for the hooks of losses and streams, within its limits: pendingReports counts them.
//
// A hook that panics, or ends its goroutine (runtime.Goexit), must not leave a lock that no goroutine knows, nor another observer with a call
// that has no end. A panic is recovered and logged. A goroutine that ends cannot be stopped: so what follows a hook is deferred.
//
// Without an observer every caller compares one pointer with nil, and nothing is allocated.
package observe

import (
	"context"
	"runtime/debug"
	"slices"
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

// Hooks is the hooks of one observer; signalbox.Observer has the same.
type Hooks struct {
	Waiting, Acquired                            Starter
	Refused, Released, Lost, Unconfirmed, Forced Hook
	Renewed, Polling, Subscribed                 Hook
	MemberJoined, MemberLeft                     Hook
	ShardGranted, ShardDraining                  Hook
	ShardSlow, ShardReleased                     Hook
	Names                                        bool
}

// Observer is what a session calls. It is never written to once a session has it.
type Observer struct {
	Names bool // a observer asked for the names of locks

	hooks    []Hooks
	streams  []stream // the calls about the session, by observer
	panicked func(cause any, stack []byte)
	pending  *pendingReports
}

// New returns an Observer that calls these observers, or nil without one.
func New(hooks []Hooks) *Observer {
	if len(hooks) == 0 {
		return nil
	}
	return &Observer{hooks: hooks, Names: slices.ContainsFunc(hooks, func(g Hooks) bool { return g.Names })}
}

// With returns an Observer with the observers of o that calls panicked with what a hook panicked with.
func (o *Observer) With(panicked func(cause any, stack []byte)) *Observer {
	with := &Observer{Names: o.Names, hooks: o.hooks, panicked: panicked, pending: new(pendingReports)}
	with.streams = with.makeStreams()
	return with
}

// Await blocks until every loss that ExpectEnd counted, and every call of a stream, is reported, or until ctx ends. It is called with no
// observer, too.
func (o *Observer) Await(ctx context.Context) {
	if o != nil {
		o.pending.await(ctx)
	}
}

// Labels are the labels of a lock.
type Labels struct{ Kind, Class, Name string }

func event(l Labels) Event { return Event{Kind: l.Kind, Class: l.Class, Name: l.Name} }

// OnForced reports that a lock was taken from its holder. It is called with no observer, too.
func (o *Observer) OnForced(ctx context.Context, l Labels) {
	if o != nil {
		e := event(l)
		o.each(func(i int) { o.call(i, o.hooks[i].Forced, ctx, e) })
	}
}

// OnPolling reports that messages do not arrive, because of err, and waiters poll.
func (o *Observer) OnPolling(err error) {
	if o != nil {
		o.report(func(g *Hooks) Hook { return g.Polling }, Event{Outcome: outcome(err), Err: err})
	}
}

// OnSubscribed reports that messages arrive again.
func (o *Observer) OnSubscribed() {
	if o != nil {
		o.report(func(g *Hooks) Hook { return g.Subscribed }, Event{})
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
		o.report(func(g *Hooks) Hook { return g.Renewed }, e)
	}
}

// may returns e with what g asked for.
func (h *Hooks) may(e Event) Event {
	if !h.Names {
		e.Name, e.Shard = "", ""
	}
	return e
}

// call calls a hook of the observer i, if it has one. It ends a panic.
func (o *Observer) call(i int, hook Hook, ctx context.Context, e Event) { //nolint:revive // the hook is what is called with the rest
	if hook == nil {
		return
	}
	defer o.rescue()
	hook(ctx, o.hooks[i].may(e))
}

// start calls a Starter of the observer i. Without one the context is ctx.
func (o *Observer) start(i int, hook Starter, ctx context.Context, e Event) (next context.Context) { //nolint:revive // as in call
	if hook == nil {
		return ctx
	}
	defer o.rescue()
	defer func() {
		if next == nil {
			next = ctx // the hook returned none, or it panicked
		}
	}()
	return hook(ctx, o.hooks[i].may(e))
}

// rescue ends a panic. It is the deferred function itself, as recover needs.
func (o *Observer) rescue() {
	if cause := recover(); cause != nil {
		o.panicked(cause, debug.Stack())
	}
}

// pendingReports counts the calls that are not made yet. A sync.WaitGroup would not do: Close may wait while a loss is
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
