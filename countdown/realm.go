// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// realm holds the state of one session for the count-down latches of one layout: those with waiters.
type realm struct {
	session *session.Session
	layout  *layout.Layout
	scripts *layout.Latch
	polls   *timers.Collector[*watch]
	refused chan struct{}   // closed when the session closes
	ctx     context.Context //nolint:containedctx // ends at Close, for the polls under way
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		watches map[string]*watch // by key
		turn    uint64            // the last that was given
		closed  error             // what every wait ends with; nil before the session closes
	}
}

func realmOf(s *session.Session, l *layout.Layout) *realm {
	return session.RegistryOf(s, l.Latch.RegistryName, func() *realm {
		r := &realm{session: s, layout: l, scripts: l.Latch, refused: make(chan struct{})}
		r.ctx, r.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
		r.polls = timers.NewCollector(s.Timers, r.pollAll)
		r.mu.watches = make(map[string]*watch)
		return r
	})
}

// join adds a waiter. The first waiter of a round makes sure that its end is noticed; messages and polls
// from then on count for the later waiters too. If rounds are nameless every waiter is a first one: what
// was polled before it came may have been another round.
func (r *realm) join(k keys, round wire.Stamp) (*watch, *awaited, error) {
	w, a, first, err := r.register(k, round)
	if first {
		w.ends.Open(r.session.Dispatch, k.ended, session.ChannelTypesOf(r.layout), w)
		r.polls.Put(w)
	}
	return w, a, err
}

func (r *realm) register(k keys, round wire.Stamp) (w *watch, a *awaited, first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed != nil {
		return nil, nil, false, r.mu.closed
	}
	if w = r.mu.watches[k.latch]; w == nil {
		w = &watch{realm: r, keys: k, waits: make(map[wish]*awaited)}
		w.next.Init(w)
		r.mu.watches[k.latch] = w
	}
	what := wish{round: round}
	if r.scripts.AnonymousRounds {
		r.mu.turn++
		what.turn = r.mu.turn
	}
	if a = w.waits[what]; a == nil {
		a = &awaited{wish: what, done: make(chan struct{})}
		w.waits[what] = a
		first = true
	}
	a.users++
	return w, a, first, nil
}

// leave counts a waiter out.
func (r *realm) leave(w *watch, a *awaited) {
	r.mu.Lock()
	a.users--
	if a.users == 0 && w.waits[a.wish] == a {
		delete(w.waits, a.wish)
	}
	over := w.overLocked()
	r.mu.Unlock()
	if over {
		w.ends.Close()
	}
}

// Refuse implements session.Part.
func (r *realm) Refuse(err error) {
	r.mu.Lock()
	if r.mu.closed != nil {
		r.mu.Unlock()
		return
	}
	r.mu.closed = err
	close(r.refused)
	var over []*watch
	for _, w := range r.mu.watches {
		for _, a := range w.waits {
			w.endLocked(a, err)
		}
		if w.overLocked() {
			over = append(over, w)
		}
	}
	r.mu.Unlock()
	for _, w := range over {
		w.ends.Close()
	}
}

// Evict implements session.Part: a latch has no holder.
func (*realm) Evict(error) {}

// Recheck implements session.Part.
func (*realm) Recheck(string) {}

// RecheckAll implements session.Part.
func (*realm) RecheckAll() {}

// Close implements session.Part.
func (r *realm) Close() {
	r.cancel()
	r.polls.Close()
}
