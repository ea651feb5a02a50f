// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// runRegistry has the calls of one session that wait for outcomes. Of the calls for one key one asks the
// server, and the others wait for it here, first in, first out.
type runRegistry struct {
	timers  *timers.Timers
	refused chan struct{} // closed when the session closes; no timer may fire after that

	mu struct {
		sync.Mutex
		flights map[string]*flight // by key
		closed  bool
	}
}

// flight is the calls for one key that wait for one outcome.
type flight struct {
	registry *runRegistry
	key      string
	turn     chan struct{} // holds an element while a call leads, the one that asks the server, or its function runs
	done     chan struct{} // closed when a leader has learned the outcome

	// Guarded by the lock of the registry.
	calls     int          // calls that wait
	requests  int          // requests of leaders that may bring an outcome
	execution *execution   // the function that runs, or nil
	linger    timers.Timer // ends the context of execution; not scheduled while a call waits

	// Written before done is closed, read after.
	value   string
	request int // the number of the request that brought value
}

func runRegistryOf(s *session.Session) *runRegistry {
	return session.RegistryOf(s, "once", func() *runRegistry {
		r := &runRegistry{timers: s.Timers, refused: make(chan struct{})}
		r.mu.flights = make(map[string]*flight)
		return r
	})
}

// join adds a call. since is the number of the last request of a leader that was sent before: its
// reply may be older than what the caller knows.
func (r *runRegistry) join(key string) (f *flight, since int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f = r.mu.flights[key]
	if f == nil {
		f = &flight{registry: r, key: key, turn: make(chan struct{}, 1), done: make(chan struct{})}
		f.linger.Init(f)
		r.mu.flights[key] = f
	}
	f.calls++
	if f.calls == 1 && f.execution != nil {
		r.timers.Cancel(&f.linger) // if it fires at this moment, Fire finds the call
	}
	return f, f.requests
}

// leave removes a call. After the last one the function may run for as long as its Linger says.
func (r *runRegistry) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.calls--
	switch {
	case f.calls > 0:
	case f.execution == nil:
		r.endLocked(f)
	case r.mu.closed:
		f.execution.cancel(errs.ErrClosed)
	case f.execution.once.base.Linger == 0:
		f.execution.cancel(errNoCaller)
	default:
		r.timers.Schedule(&f.linger, f.execution.once.base.Linger)
	}
}

// Fire implements timers.Firer: no call has waited for the function for as long as Linger says. Nothing of the
// caller's runs under the lock: what waits for a context runs on goroutines of its own.
func (f *flight) Fire() {
	f.registry.mu.Lock()
	defer f.registry.mu.Unlock()
	if f.calls == 0 && f.execution != nil {
		f.execution.cancel(errNoCaller)
	}
}

// executionEnded says that no function runs for the calls of f any more.
func (r *runRegistry) executionEnded(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.execution = nil
	r.timers.Cancel(&f.linger)
	if f.calls == 0 {
		r.endLocked(f)
	}
}

// nextRequest returns the number of a request that the leader is about to send, and that may bring an
// outcome.
func (r *runRegistry) nextRequest(f *flight) (request int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.requests++
	return f.requests
}

// deliver hands the outcome that a request brought to all waiting calls. Later calls ask the server
// themselves. Only the leader calls it, or its function's goroutine, and the turn ends after that. So done is
// closed once: the next leader finds it closed.
func (r *runRegistry) deliver(f *flight, request int, value string) {
	f.value, f.request = value, request
	close(f.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(f)
}

func (r *runRegistry) endLocked(f *flight) {
	if r.mu.flights[f.key] == f {
		delete(r.mu.flights, f.key)
	}
}

// wait waits for the outcome, or until it is the caller's turn to lead.
func (r *runRegistry) wait(ctx context.Context, f *flight) (leads bool, err error) {
	select {
	case <-f.done:
		return false, nil
	case <-r.refused:
		return false, errs.ErrClosed
	case <-ctx.Done():
		return false, errs.WhileHeld(errs.Ended(ctx))
	case f.turn <- struct{}{}:
	}
	return f.leads(), nil
}

// leads reports whether the caller, which has the turn, leads. If an outcome came at the same time, its turn ends.
func (f *flight) leads() bool {
	select {
	case <-f.done:
		f.endTurn()
		return false
	default:
		return true
	}
}

// tryTurn is wait without a wait: the caller leads, or the outcome is there, or neither.
func (f *flight) tryTurn() (leads, isDone bool) {
	select {
	case f.turn <- struct{}{}:
		leads = f.leads()
		return leads, !leads
	case <-f.done:
		return false, true
	default:
		return false, false
	}
}

func (f *flight) endTurn() { <-f.turn }

// Refuse implements session.KindRegistry.
func (r *runRegistry) Refuse(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return
	}
	r.mu.closed = true
	close(r.refused)
	for _, f := range r.mu.flights {
		if f.calls == 0 && f.execution != nil {
			f.execution.cancel(errs.ErrClosed)
		}
	}
}

// Close implements session.KindRegistry.
func (*runRegistry) Close() {}
