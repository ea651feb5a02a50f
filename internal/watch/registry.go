// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Registry has the observed names of one kind in one session. It implements session.KindRegistry for kinds without holds. Init
// makes one.
type Registry struct {
	timers     *timers.Timers
	dispatcher *dispatch.Dispatcher
	runner     *wire.Runner
	polls      *timers.Collector[*Subject]
	refused    chan struct{}
	ctx        context.Context //nolint:containedctx // ends at Close, for the calls under way
	cancel     context.CancelFunc

	mu struct {
		sync.Mutex
		subjects map[string]*Subject // by key
		closed   error               // the error of Refuse, or nil
		batch    uint64              // the number of the last batch of polls
	}
}

// Init makes r the registry of a session that has these.
func (r *Registry) Init(t *timers.Timers, d *dispatch.Dispatcher, runner *wire.Runner) {
	r.timers, r.dispatcher, r.runner = t, d, runner
	r.refused = make(chan struct{})
	r.ctx, r.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	r.polls = timers.NewCollector(t, r.pollAll)
	r.mu.subjects = make(map[string]*Subject)
}

// Lock acquires the lock of r, which guards the state of each Watched too.
func (r *Registry) Lock() { r.mu.Lock() }

// Unlock releases the lock of r.
func (r *Registry) Unlock() { r.mu.Unlock() }

// Context returns the context for the calls of the kind in the background. It ends at Close.
func (r *Registry) Context() context.Context { return r.ctx }

// Refused returns a channel that is closed when the session refuses work.
func (r *Registry) Refused() <-chan struct{} { return r.refused }

// Channel is where the changes of a name are announced.
type Channel struct {
	Name  string
	Types dispatch.ChannelTypes
}

// Join adds an observer of the name that has this key, and returns what the session knows of it. create makes that if the
// observer is the first one. observe then adds the caller to it, and reports whether to poll at once. Both are called with
// the lock held. Each Join needs a Leave, unless it returned an error.
func Join[W Watched](r *Registry, key string, channel Channel, create func() W, observe func(W) (poll bool)) (W, error) {
	r.mu.Lock()
	if r.mu.closed != nil {
		defer r.mu.Unlock()
		var none W
		return none, r.mu.closed
	}
	s := r.mu.subjects[key]
	if s == nil {
		w := create()
		s = w.Subject()
		s.registry, s.key, s.watched = r, key, w
		s.next.Init((*due)(s))
		r.mu.subjects[key] = s
	}
	s.observers++
	w := s.watched.(W) //nolint:errcheck,forcetypeassert // a registry has one kind
	poll := observe(w)
	r.mu.Unlock()
	s.subscription.Open(r.dispatcher, channel.Name, channel.Types, (*listener)(s))
	if poll {
		r.polls.Put(s)
	}
	return w, nil
}

// Refuse implements session.KindRegistry: every observation ends.
func (r *Registry) Refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed != nil {
		return
	}
	r.mu.closed = err
	close(r.refused)
	for _, s := range r.mu.subjects {
		s.watched.OnClose(err)
	}
}

// Close implements session.KindRegistry: it ends the polls under way, and waits for them.
func (r *Registry) Close() {
	r.cancel()
	r.polls.Close()
}
