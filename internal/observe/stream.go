// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// maxRenewed bounds the calls of Renewed that a observer has not returned from: more are left out. The other hooks of a stream follow each other
// in pairs, and none is left out.
const maxRenewed = 1024

// stream is calls of the hooks of one observer. They are made one after the other, in order, on a goroutine that runs while there are any.
type stream struct {
	observer *Observer
	guest    int

	mu    sync.Mutex
	calls []hookCall // the calls that are left; the first one is being made. Guarded by mu
}

type hookCall struct {
	ctx   context.Context //nolint:containedctx // that of the hook
	hook  Hook
	event Event
}

func (o *Observer) makeStreams() []stream {
	all := make([]stream, len(o.hooks))
	for i := range all {
		all[i].observer, all[i].guest = o, i
	}
	return all
}

// report adds a call about the session to the stream of each observer.
func (o *Observer) report(hookOf func(*Hooks) Hook, e Event) {
	for i := range o.streams {
		o.streams[i].add(context.Background(), hookOf(&o.hooks[i]), e)
	}
}

// add adds a call of hook, if it is not nil. It does not block, so the caller may hold a lock.
func (s *stream) add(ctx context.Context, hook Hook, e Event) {
	if hook == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Leases > 0 && len(s.calls) >= maxRenewed {
		return
	}
	s.observer.pending.add()
	if s.calls = append(s.calls, hookCall{ctx, hook, e}); len(s.calls) == 1 {
		go s.run() // it ends when it finds no call left, under the lock
	}
}

// run makes the calls until there are no more.
func (s *stream) run() {
	for s.runOne() {
	}
}

// runOne makes the first call, and reports whether others are left. If the hook ends the goroutine, another one makes these.
func (s *stream) runOne() (more bool) {
	s.mu.Lock()
	next := s.calls[0]
	s.mu.Unlock()
	returned := false
	defer func() {
		s.observer.pending.done()
		s.mu.Lock()
		s.calls = s.calls[1:]
		more = len(s.calls) > 0
		s.mu.Unlock()
		if more && !returned {
			go s.run()
		}
	}()
	s.observer.call(s.guest, next.hook, next.ctx, next.event)
	returned = true
	return false // more is set by the deferred function
}

// patience is how long the hook of a observer may block before the observers behind it are called without it.
const patience = 10 * time.Millisecond

// each calls call with the number of each observer, and returns when all calls have returned.
func (o *Observer) each(call func(i int)) {
	if len(o.hooks) == 1 {
		call(0)
		return
	}
	r := &round{call: call, hooks: int32(len(o.hooks))} //nolint:gosec // a program passes a few
	r.left.Add(len(o.hooks))
	defer r.left.Wait() // deferred: also if a call ends the goroutine
	r.run()
}

// round is the calls of one hook of all observers. One goroutine makes them in order. When it needs longer than patience, another one
// makes those that are left: a observer that blocks has its goroutine for itself.
type round struct {
	call  func(i int)
	hooks int32
	next  atomic.Int32   // the next observer to call
	left  sync.WaitGroup // the calls that have not returned
}

func (r *round) run() {
	takeover := time.AfterFunc(patience, r.run) //nolint:forbidigo // it is stopped; a hook has no timers of a session
	defer takeover.Stop()
	for i := r.next.Add(1) - 1; i < r.hooks; i = r.next.Add(1) - 1 {
		r.callOne(int(i))
	}
}

func (r *round) callOne(i int) {
	returned := false
	defer func() {
		if !returned {
			r.run() // the call ends the goroutine: the others are called before that
		}
	}()
	defer r.left.Done()
	r.call(i)
	returned = true
}
