// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/batch"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/stamp"
)

// kind is what the session knows count-down latches as.
const kind = "countdown"

// realm is what one session has of count-down latches: those at which somebody waits.
type realm struct {
	session *session.Session
	looks   *batch.Collector[*watch]
	refused chan struct{}   // closed when the session closes
	ctx     context.Context //nolint:containedctx // ends at Close, for the looks under way
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		watches map[string]*watch // by key
		closed  error             // what every wait ends with; nil before the session closes
	}
}

func realmOf(s *session.Session) *realm {
	return session.PartOf(s, kind, func() *realm {
		r := &realm{session: s, refused: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancel(context.Background())
		r.looks = batch.New(s.Timers, r.lookAll)
		r.mu.watches = make(map[string]*watch)
		return r
	})
}

// join counts a waiter in. The first one of a round sees to it that the end is noticed; the others find that
// done, since what was heard or looked for then is for them as well.
func (r *realm) join(k keys, round stamp.Stamp) (*watch, *awaited, error) {
	w, a, first, err := r.register(k, round)
	if first {
		w.listen()
		r.looks.Put(w)
	}
	return w, a, err
}

func (r *realm) register(k keys, round stamp.Stamp) (w *watch, a *awaited, first bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed != nil {
		return nil, nil, false, r.mu.closed
	}
	if w = r.mu.watches[k.latch]; w == nil {
		w = &watch{realm: r, keys: k, rounds: make(map[stamp.Stamp]*awaited)}
		w.next.Init(w)
		r.mu.watches[k.latch] = w
	}
	if a = w.rounds[round]; a == nil {
		a = &awaited{done: make(chan struct{})}
		w.rounds[round] = a
		first = true
	}
	a.users++
	return w, a, first, nil
}

// leave counts a waiter out.
func (r *realm) leave(w *watch, a *awaited, round stamp.Stamp) {
	r.mu.Lock()
	a.users--
	if a.users == 0 && w.rounds[round] == a {
		delete(w.rounds, round)
	}
	over := w.overLocked()
	r.mu.Unlock()
	if over {
		w.deafen()
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
		for round, a := range w.rounds {
			w.endLocked(round, a, err)
		}
		if w.overLocked() {
			over = append(over, w)
		}
	}
	r.mu.Unlock()
	for _, w := range over {
		w.deafen()
	}
}

// Evict implements session.Part: nobody holds anything.
func (*realm) Evict(error) {}

// Recheck implements session.Part.
func (*realm) Recheck(string) {}

// RecheckAll implements session.Part.
func (*realm) RecheckAll() {}

// Close implements session.Part.
func (r *realm) Close() {
	r.cancel()
	r.looks.Close()
}
