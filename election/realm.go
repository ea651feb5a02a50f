// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// realm is the part of a session for elections: the observed ones, and the writes of values.
type realm struct {
	session *session.Session
	polls   *timers.Collector[*watch]
	writes  *timers.Collector[*term]
	ctx     context.Context //nolint:containedctx // ends at Close, for the calls under way
	cancel  context.CancelFunc

	terms struct {
		sync.Mutex
		of map[string]map[*term]struct{} // that were not resigned, by the key of the holder
	}
	mu struct {
		sync.Mutex
		watches map[string]*watch // by the key of the holder
		closed  error             // what every observation ends with; nil before the session closes
	}
}

func realmOf(s *session.Session) *realm {
	return session.RegistryOf(s, "election", func() *realm {
		r := &realm{session: s}
		r.ctx, r.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
		r.polls = timers.NewCollector(s.Timers, r.pollAll)
		r.writes = timers.NewCollector(s.Timers, r.writeAll)
		r.mu.watches = make(map[string]*watch)
		r.terms.of = make(map[string]map[*term]struct{})
		return r
	})
}

// began remembers a term until it is resigned.
func (r *realm) began(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	if r.terms.of[key] == nil {
		r.terms.of[key] = make(map[*term]struct{})
	}
	r.terms.of[key][t] = struct{}{}
}

// resigned forgets a term.
func (r *realm) resigned(t *term) {
	key := t.election.keys.holder
	r.terms.Lock()
	defer r.terms.Unlock()
	delete(r.terms.of[key], t)
	if len(r.terms.of[key]) == 0 {
		delete(r.terms.of, key)
	}
}

// held returns the terms of an election that were not resigned, whichever Election of the session began them.
func (r *realm) held(key string) []*term {
	r.terms.Lock()
	defer r.terms.Unlock()
	return slices.Collect(maps.Keys(r.terms.of[key]))
}

// join adds an observer, and returns the number of the first poll that is sent after this call.
func (r *realm) join(k keys) (w *watch, from uint64, err error) {
	r.mu.Lock()
	if r.mu.closed != nil {
		defer r.mu.Unlock()
		return nil, 0, r.mu.closed
	}
	if w = r.mu.watches[k.holder]; w == nil {
		w = &watch{realm: r, keys: k, changed: make(chan struct{}), heard: clock.Now()}
		w.next.Init(w)
		r.mu.watches[k.holder] = w
	}
	w.users++
	from = w.sent + 1
	r.mu.Unlock()
	w.changes.Open(r.session.Dispatch, k.changed, dispatch.ShardedChannel, w)
	r.polls.Put(w)
	return w, from, nil
}

// leave removes an observer. The last one removes the watch.
func (r *realm) leave(w *watch) {
	r.mu.Lock()
	w.users--
	over := w.users == 0
	if over {
		if r.mu.watches[w.keys.holder] == w {
			delete(r.mu.watches, w.keys.holder)
		}
		r.session.Timers.Cancel(&w.next)
	}
	r.mu.Unlock()
	if over {
		w.changes.Close()
	}
}

// Refuse implements session.Part: every observation ends.
func (r *realm) Refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = err
	for _, w := range r.mu.watches {
		w.showLocked(view{err: err, final: true})
	}
}

// Evict implements session.Part: the leases of terms are the lock's.
func (*realm) Evict(error) {}

// Recheck implements session.Part.
func (*realm) Recheck(string) {}

// RecheckAll implements session.Part.
func (*realm) RecheckAll() {}

// Close implements session.Part.
func (r *realm) Close() {
	r.cancel()
	r.polls.Close()
	r.writes.Close()
}
