// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"hash/maphash"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Protocol describes how one kind of lock uses the queue. The arguments and replies of its steps are those of
// package scripts. The arguments of Enter end with those of the Request.
type Protocol struct {
	*proto.QueueScripts

	// Refusal returns the error if Enter replied wire.TooFew or wire.OtherCapacity, with the capacity.
	Refusal func(code wire.Code, capacity int64) error
}

// isExclusive reports whether a lock of the kind has at most one hold at a time.
func (p *Protocol) isExclusive() bool { return p.Requeue != nil }

// Request says on what terms an attempt acquires the lock.
type Request struct {
	Life time.Duration // the life of a hold that is granted at once
	// FloorTTL is how long the server keeps the token floor of an idle lock, in milliseconds, as an argument of
	// scripts.
	FloorTTL string
	// Mode is the end of the ticket and of the hold's name. It says what scripts have to know of the request, such as
	// the number of permits. All modes of a kind have the same length.
	Mode string
	// Args are the arguments of Enter that other kinds do not have, as proto.RWTerms or proto.PermitTerms.
	Args []string
	// ShareKey is equal for goroutines that can share a ticket. It is zero if each goroutine has a ticket of its own.
	ShareKey waitroom.ShareKey
	// KeepFor is for how long a hold may be kept while no goroutine uses it. If it is not 0, Mode says so to the scripts.
	KeepFor time.Duration
	// Wanted says that a hold learns that another session waits; see WantedHold. Renewals have to say whether the key has a mark.
	Wanted bool
	// Joint is the request if the lock is acquired together with others; nil if it is the same. Such a hold is not kept.
	Joint *Request
	// Concurrent says that other goroutines of the session may hold the lock at the same time.
	Concurrent bool
}

// Queues keeps the queues of one kind of lock in one session.
type Queues struct {
	session  *session.Session
	protocol Protocol
	polls    *timers.Collector[*Queue]
	// questions has the attempts that ask whether another session waits; see questionLocked. It is nil if no kind of hold asks.
	questions *timers.Collector[*Attempt]
	ctx       context.Context //nolint:containedctx // ends at Close, for the polls and questions under way
	cancel    context.CancelFunc
	// The phase brings the polls of several queues of the session into one call. After an outage the polls of several
	// sessions would fall together too. So each session has another drift, up to a hundredth of a pause.
	phase time.Duration
	drift float64
	purse purse // says whether Release sends the short release first

	mu struct {
		sync.Mutex
		// The queues by holder key: queues in use, and queues in which an attempt waited a moment ago.
		queues        table[Queue]
		pendingQueues int                       // the number of queues in which an attempt enters or waits
		attempts      table[Attempt]            // by attempt id, the attempts that may have something on the server
		past          pastTickets               // the attempts that are over
		listeners     map[string]*grantListener // by channel, the listeners of queues in which an attempt waits
		lastNumber    int64                     // the number of the newest heartbeat
		heartbeats    []heartbeat               // the heartbeats whose lives are not over, in the order of sending
		enterTexts    enterTexts                // of the last enter
	}
}

// New returns the registry of s. It starts nothing.
func New(s *session.Session, protocol Protocol) *Queues {
	registry := &Queues{session: s, protocol: protocol, phase: rand.N(notify.PollInterval), drift: rand.Float64() / 100}
	registry.ctx, registry.cancel = errs.WithCancel(context.Background(), errs.ErrClosed)
	registry.polls = timers.NewCollector(s.Timers, registry.pollAll)
	if protocol.Waiters != nil {
		registry.questions = timers.NewCollector(s.Timers, registry.sendQuestions)
	}
	registry.mu.queues = newTable(func(q *Queue) string { return q.keys.Holder })
	registry.mu.attempts = newTable((*Attempt).id)
	registry.mu.listeners = make(map[string]*grantListener)
	return registry
}

// Begin returns the queue with these keys, which must not change. It counts the caller, or the hold that it will have, as a
// user of the queue and in the session. It returns why the session accepts no caller.
func (r *Queues) Begin(keys *proto.Set) (*Queue, error) {
	if err := r.session.Begin(); err != nil {
		return nil, err
	}
	return r.use(keys), nil
}

func (r *Queues) use(keys *proto.Set) *Queue { return r.useIn(nil, keys) }

func (r *Queues) useIn(unused *Queue, keys *proto.Set) *Queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.useLocked(unused, keys)
}

// useLocked returns the queue with these keys, and counts the caller as its user. A new queue uses the memory of unused, if that
// is not nil.
func (r *Queues) useLocked(unused *Queue, keys *proto.Set) *Queue {
	q := r.mu.queues.get(keys.Holder)
	if q == nil {
		if q = unused; q == nil {
			q = new(Queue)
		}
		q.registry, q.keys = r, keys
		r.mu.queues.put(q)
	}
	q.users++
	return q
}

// done counts a user out. A queue in which an attempt waited is remembered for a while, because the server still counts
// the session as alive there.
func (r *Queues) done(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.users--
	switch {
	case q.users > 0:
	case q.waitState != nil:
		r.session.Timers.Schedule(&q.timer, notify.Linger)
	default:
		r.dropLocked(q)
	}
}

// dropLocked forgets a queue that has no user.
func (r *Queues) dropLocked(q *Queue) {
	if q.users == 0 && r.mu.queues.get(q.keys.Holder) == q {
		r.mu.queues.remove(q.keys.Holder)
	}
}

// Len returns the number of queues that are in use or remembered, of attempts that may have something on the server, and
// of channels with a listener.
func (r *Queues) Len() (queues, attempts, listeners int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.queues.len, r.mu.attempts.len, len(r.mu.listeners)
}

// ShareKeyOf returns the share key of a ticket of this session. It is zero if the ticket is not known, or belongs to one
// goroutine.
func (r *Queues) ShareKeyOf(ticket string) waitroom.ShareKey {
	attempt, isOurs := strings.CutPrefix(ticket, r.session.ID())
	if !isOurs || len(attempt) < attemptSize {
		return waitroom.ShareKey{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.mu.attempts.get(attempt[:attemptSize]); a != nil {
		return a.request.ShareKey
	}
	return waitroom.ShareKey{}
}

// Refuse implements session.KindRegistry. It withdraws the tickets of the session in one batch, so that Close, which
// releases holds after that, hands them to other sessions. A waiter finds its attempt over, or the session not ready.
func (r *Queues) Refuse(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.mu.attempts.all() {
		if a.state == queued {
			a.toLocked(withdrawn)
			a.waitLocked().refusal = err
			leaveExchange{a}.repeatLeave()
		}
		a.wake()
	}
}

// LocalHolds implements session.HoldRegistry.
//
// A queued attempt was not granted the lock before the session began to listen, since the message of the grant would have
// come first. But the message that its lock was forced may overtake the message of the grant: they can come from two nodes.
func (r *Queues) LocalHolds(key string, recheck bool) []session.LocalHold { //nolint:revive // session.HoldRegistry has it
	r.mu.Lock()
	defer r.mu.Unlock()
	var holds []session.LocalHold
	for a := range r.mu.attempts.all() {
		switch {
		case key != "" && a.q.keys.Holder != key:
		case a.localHold != nil:
			holds = append(holds, a.localHold)
		case key != "" || a.state != queued:
			if recheck {
				a.flags |= needsRecheck
			}
		}
	}
	return holds
}

// Close implements session.KindRegistry.
func (r *Queues) Close() {
	r.cancel()
	r.polls.Close()
	if r.questions != nil {
		r.questions.Close()
	}
}

// table finds values by a text that each of them knows. A map would keep that text beside each pointer: 43 bytes for each of 10,000
// values, in place of 13. An empty slot ends each search, so removing a value moves up those that were put behind it.
type table[T any] struct {
	key   func(*T) string
	seed  maphash.Seed
	slots []*T // a power of two, of which at most three in four are used; a value is in its home, or behind it without a gap
	len   int
}

func newTable[T any](key func(*T) string) table[T] {
	return table[T]{key: key, seed: maphash.MakeSeed(), slots: make([]*T, 8)}
}

// home returns the first slot in which a value with that key may be.
func (t *table[T]) home(key string) int { return t.wrap(int(maphash.String(t.seed, key) >> 1)) } //nolint:gosec // 63 bits

func (t *table[T]) wrap(slot int) int { return slot & (len(t.slots) - 1) }

// find returns the slot of the value with that key, or the empty one to which it belongs.
func (t *table[T]) find(key string) int {
	slot := t.home(key)
	for t.slots[slot] != nil && t.key(t.slots[slot]) != key {
		slot = t.wrap(slot + 1)
	}
	return slot
}

// get returns the value with that key, or nil.
func (t *table[T]) get(key string) *T { return t.slots[t.find(key)] }

// put adds v, which is not in the table, and whose key no other value has.
func (t *table[T]) put(v *T) {
	if t.len++; 4*t.len > 3*len(t.slots) {
		old := t.slots
		t.slots = make([]*T, 2*len(old))
		for _, moved := range old {
			if moved != nil {
				t.slots[t.find(t.key(moved))] = moved
			}
		}
	}
	t.slots[t.find(t.key(v))] = v
}

// remove removes the value with that key, if there is one.
func (t *table[T]) remove(key string) {
	empty := t.find(key)
	if t.slots[empty] == nil {
		return
	}
	t.len--
	for slot := t.wrap(empty + 1); t.slots[slot] != nil; slot = t.wrap(slot + 1) {
		// A value stays if its home is behind the empty slot.
		if v := t.slots[slot]; t.wrap(slot-t.home(t.key(v))) >= t.wrap(slot-empty) {
			t.slots[empty], empty = v, slot
		}
	}
	t.slots[empty] = nil
}

// all yields the values. The caller does not change the table meanwhile.
func (t *table[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, v := range t.slots {
			if v != nil && !yield(v) {
				return
			}
		}
	}
}
