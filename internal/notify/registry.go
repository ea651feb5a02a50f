// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Registry has the observed names of one kind in one session, and lets the goroutines that wait for news of one name share a poll and
// a subscription. It implements session.KindRegistry for kinds without holds. Init makes one.
//
// A kind of primitive has a [Registry] in each session. It makes a [Watched] for each name, which knows what the
// messages and the replies mean, and whom to wake. The registry knows when to poll and when to stop.
//
// # Guarantees
//
//  1. The observers of one name in one session have one subscription and one timer, which end with the last
//     observer. An observer has no goroutine of its own.
//  2. A poll is sent within two milliseconds of each Join that asks for one, of each confirmed subscription (messages
//     before that are lost), and of each message or reply after which the Watched wants another one.
//  3. A poll follows each reply, also one that is an error, after the pause that a [Dispatcher] has for a name: about
//     a second, or a tenth of one without a subscription. A lost subscription brings the next poll forward.
//  4. Polls that are due in one tick go together, in pipelines of at most 200 calls. A poll that has no reply after a
//     second has failed.
//  5. The polls of a name are numbered. A poll whose number is [Subject.NextPollLocked] or more was sent after that
//     call, so its reply is as new.
//  6. After [Registry.Refuse] each Join returns the error of that. After [Registry.Close] no method of a Watched is
//     called any more with a reply, and no poll is sent.
//
// # Not guaranteed
//
// Replies come in the order of their polls only if the polls are a second apart: two batches may be under way. A Watched
// that shows replies compares their numbers.
//
// # Locking
//
// A Registry has one lock. It guards
//
//   - the map of subjects, the error of Refuse, and the number of the batch;
//   - of each [Subject]: its observers, its number of polls, and the result of the last one. Its registry, its key and its
//     Watched are assigned before it is in the map;
//   - the state of each [Watched]. Its methods are called with the lock held; Join calls its functions in the same
//     way. A kind that reads or writes that state elsewhere acquires the lock by [Registry.Lock].
//
// So under the lock nothing blocks: no call is sent, and no subscription is opened or closed. Methods whose names end in
// Locked are for callers that hold the lock, all others are for those that do not. The locks of the timers, of the
// collector and of the dispatcher are acquired after it. The dispatcher and the timers call with none of their own held.
//
// What happens at the same time:
//
//   - Join and the last Leave: a subject leaves the map under the hold of the lock in which its last observer leaves.
//     Join finds it before that and keeps it, or makes another one, with a subscription of its own.
//   - Join and Refuse: Join adds its observer under the hold of the lock in which it finds the registry open. So Refuse
//     finds that observer, and notifies its Watched.
//   - Leave and opening the subscription, which Join does after it has released the lock: the first closes the
//     subscription, whether it is open or is about to be. The [Dispatcher] guards that.
//   - A message, a confirmation, a timer or a reply after the last Leave: a subject without observers sends no poll,
//     schedules nothing and calls no Watched. It has no observers ever again.
//   - Leave and a timer: Leave cancels it under the lock, and nothing schedules it after that, for the reason above.
//     If it fires already, its poll is dropped.
//   - A Join and the poll that is prepared: the number of a poll is taken under the lock in which its calls are made.
//     Join took its number before or after that; a poll that it must not count has a smaller one.
//   - Refuse and a poll under way: its reply is handled. A Watched that was closed ignores it.
//
// # Goroutines
//
// The collector has one for each batch of polls under way. Join, Leave and Refuse run on those of their callers, messages
// on the reader of the connection. Close cancels the batches and waits for them.
type Registry struct {
	timers     *timers.Timers
	dispatcher *Dispatcher
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
func (r *Registry) Init(t *timers.Timers, d *Dispatcher, runner *wire.Runner) {
	r.timers, r.dispatcher, r.runner = t, d, runner
	r.refused = make(chan struct{})
	r.ctx, r.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	r.polls = timers.NewCollector(t, r.poll)
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
	Types ChannelTypes
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
