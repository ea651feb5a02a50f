// SPDX-License-Identifier: Apache-2.0

package once

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
)

// room has the calls of one session that wait for outcomes. Of the calls for one key one asks the
// server, and the others wait for it here, first in, first out.
type room struct {
	refused chan struct{} // closed when the session closes

	mu struct {
		sync.Mutex
		flights map[string]*flight // by key
		closed  bool
	}
}

// flight is the calls for one key that wait for one outcome.
type flight struct {
	key  string
	turn chan struct{} // holds an element while a call leads: the one that asks the server
	done chan struct{} // closed when a leader has learned the outcome

	users int // calls; guarded by the lock of the room
	asks  int // requests of leaders that may bring an outcome; guarded by the lock of the room

	// Written before done is closed, read after.
	value string
	ask   int // the number of the call that brought it
}

func roomOf(s *session.Session) *room {
	return session.PartOf(s, "once", func() *room {
		r := &room{refused: make(chan struct{})}
		r.mu.flights = make(map[string]*flight)
		return r
	})
}

// join adds a call. since is the number of the last request of a leader that was sent before: its
// reply may be older than what the caller knows.
func (r *room) join(key string) (f *flight, since int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f = r.mu.flights[key]
	if f == nil {
		f = &flight{key: key, turn: make(chan struct{}, 1), done: make(chan struct{})}
		r.mu.flights[key] = f
	}
	f.users++
	return f, f.asks
}

// leave removes a call.
func (r *room) leave(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.users--
	if f.users == 0 {
		r.endLocked(f)
	}
}

// asking returns the number of a request that the leader is about to send, and that may bring an
// outcome.
func (r *room) asking(f *flight) (ask int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.asks++
	return f.asks
}

// land hands the outcome that a leader's call brought to all waiting calls. Later calls ask the
// server themselves. Only the leader calls it, and then ends its turn, so done is closed once:
// the next leader finds it closed.
func (r *room) land(f *flight, ask int, value string) {
	f.value, f.ask = value, ask
	close(f.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(f)
}

func (r *room) endLocked(f *flight) {
	if r.mu.flights[f.key] == f {
		delete(r.mu.flights, f.key)
	}
}

// wait waits for the outcome, or until it is the caller's turn to lead.
func (r *room) wait(ctx context.Context, f *flight) (leads bool, err error) {
	select {
	case <-f.done:
		return false, nil
	case <-r.refused:
		return false, errs.ErrClosed
	case <-ctx.Done():
		return false, errs.WhileHeld(errs.Ended(ctx))
	case f.turn <- struct{}{}:
	}
	select {
	case <-f.done: // at the same time
		f.end()
		return false, nil
	default:
		return true, nil
	}
}

// end ends the turn of the leader.
func (f *flight) end() { <-f.turn }

// Refuse implements session.Part.
func (r *room) Refuse(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.closed {
		r.mu.closed = true
		close(r.refused)
	}
}

// Evict implements session.Part: the lock's part ends the leases.
func (*room) Evict(error) {}

// Recheck implements session.Part.
func (*room) Recheck(string) {}

// RecheckAll implements session.Part.
func (*room) RecheckAll() {}

// Close implements session.Part.
func (*room) Close() {}
