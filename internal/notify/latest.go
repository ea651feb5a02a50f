// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Latest is what a session knows of one name, for a Watched whose observers are shown that and each change of it. The lock
// of the registry guards it.
type Latest[V comparable] struct {
	observation observation[V]
	changed     chan struct{}  // closed when the observation changes, and replaced
	lastReply   timers.Instant // when the last poll was sent that had a reply
	silence     time.Duration  // how long the server may be silent before observers get the error
}

// observation is what one poll found.
type observation[V comparable] struct {
	value V      // the zero value if err is not nil
	err   error  // why the value is not known
	final bool   // no later poll changes it
	poll  uint64 // the number of the poll that found it; 0 if no poll did
}

// NewLatest returns the Latest of a name that no poll has asked for. Observers get the error of a poll that failed if the
// server has not replied for silence, or if no later poll can succeed.
func NewLatest[V comparable](silence time.Duration) Latest[V] {
	return Latest[V]{changed: make(chan struct{}), lastReply: timers.Now(), silence: silence}
}

// ValueLocked returns the value that was found last.
func (l *Latest[V]) ValueLocked() V { return l.observation.value }

// IsFinalLocked reports whether no later poll changes anything.
func (l *Latest[V]) IsFinalLocked() bool { return l.observation.final }

// ReplyLocked records that a poll had a reply.
func (l *Latest[V]) ReplyLocked(p Poll) { l.lastReply = p.Sent }

// ShowLocked shows what a reply said: a value, or an error that a later reply may change.
func (l *Latest[V]) ShowLocked(p Poll, value V, err error) {
	l.updateLocked(observation[V]{value: value, err: err, poll: p.Number})
}

// FailLocked records that a poll failed. What was known before may still be so until the server is silent for long.
func (l *Latest[V]) FailLocked(p Poll, f Failure) {
	if f.Final || -l.lastReply.Until(timers.Now()) >= l.silence {
		l.updateLocked(observation[V]{err: f.Err, final: f.Final, poll: p.Number})
	}
}

// CloseLocked ends every observation with err.
func (l *Latest[V]) CloseLocked(err error) { l.showLocked(observation[V]{err: err, final: true}) }

// updateLocked shows what a poll said, unless a later one did or the latest observation is final.
func (l *Latest[V]) updateLocked(o observation[V]) {
	if o.poll > l.observation.poll && !l.observation.final {
		l.showLocked(o)
	}
}

// showLocked makes o the latest observation, and wakes the observers.
func (l *Latest[V]) showLocked(o observation[V]) {
	l.observation = o
	close(l.changed)
	l.changed = make(chan struct{})
}

// observe returns what the session knows, if a poll with that number or a later one found it, and a channel that is closed
// when that changes.
func (l *Latest[V]) observe(s *Subject, from uint64) (observation[V], <-chan struct{}) {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if l.observation.poll < from && !l.observation.final {
		return observation[V]{}, l.changed
	}
	return l.observation, l.changed
}

// Observe yields what poll from or a later one finds of s, and then each change, until ctx ends. It returns the error that ends
// that, or nil if the caller wants no more. The caller observes s, and has not acquired the lock of the registry.
func (l *Latest[V]) Observe(ctx context.Context, s *Subject, from uint64, yield func(V, error) bool) error {
	var shown observation[V]
	for first := true; ; {
		now, changed := l.observe(s, from)
		switch {
		case now.final:
			return now.err
		case now.poll > 0 && (first || now.value != shown.value || (now.err == nil) != (shown.err == nil)):
			shown, first = now, false
			if !yield(now.value, now.err) {
				return nil
			}
			continue // it may have changed meanwhile
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errs.Join(errs.Ended(ctx), s.Refusal())
		}
	}
}
