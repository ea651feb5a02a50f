// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"context"
	"slices"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// watch is one latch with a waiter of this session. The lock of its realm guards its fields, except for those
// that say otherwise.
type watch struct {
	realm *realm
	keys  keys         // assigned once
	next  timers.Timer // the next poll

	waits   map[wish]*awaited // the rounds that are waited for
	last    error             // of the last poll if the server refused it, or nil
	replied bool              // a poll had a reply
	dropped bool              // there is no waiter any more, and the realm has forgotten it

	ends dispatch.Subscription // guarded by itself
}

// wish is what a caller waits for: a round, and, if rounds are nameless, since when.
type wish struct {
	round wire.Stamp
	turn  uint64 // 0 where rounds have names
}

// awaited is one round that has a waiter.
type awaited struct {
	wish wish          // assigned once
	done chan struct{} // closed when it is over, or waiters are no longer notified
	err  error         // how it ended; written before done is closed, read after

	users    int
	nonce    string // which an authentic message has; "" until the reply to a poll contained it
	rumoured bool   // a message of an end came, and is to be confirmed by a poll

	fences  []string // of nameless rounds: what the last polls publish if they find the round running
	fenced  bool     // one was heard: what is heard of an end from here on may be the end of this round
	changed bool     // a start was heard since the message that set rumoured
}

// wait waits until a round is over.
func (l *Latch) wait(ctx context.Context, round wire.Stamp) error {
	if err := l.base.Ready(ctx); err != nil {
		return err
	}
	l.base.Session.HandshakeInCluster(ctx, l.keys.latch)
	w, a, err := l.realm.join(l.keys, round)
	if err != nil {
		return err
	}
	defer l.realm.leave(w, a)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
	}
	select {
	case <-a.done: // at the same time, and worth more
		return a.err
	default:
		return errs.Join(errs.Ended(ctx), w.lastError())
	}
}

func (w *watch) lastError() error {
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	return w.last
}

// endLocked wakes all waiters for a round. Later callers ask anew.
func (w *watch) endLocked(a *awaited, err error) {
	a.err = err
	close(a.done)
	delete(w.waits, a.wish)
}

// overLocked forgets w if it has no waiter any more, once. It reports whether w.ends is to be closed.
func (w *watch) overLocked() bool {
	if w.dropped || len(w.waits) > 0 {
		return false
	}
	w.dropped = true
	delete(w.realm.mu.watches, w.keys.latch)
	w.realm.session.Timers.Cancel(&w.next)
	return true
}

// Subscribed implements dispatch.Hearer: messages before now may be lost.
func (w *watch) OnSubscribed() { w.realm.polls.Put(w) }

// Lost implements dispatch.Hearer: it brings the next poll forward, to that of a session that hears
// no messages.
func (w *watch) OnUnsubscribed() {
	w.realm.mu.Lock()
	defer w.realm.mu.Unlock()
	if !w.dropped {
		w.scheduleLocked()
	}
}

// Heard implements dispatch.Hearer: a message says that a round is over.
func (w *watch) OnMessage(message string) {
	w.realm.mu.Lock()
	var over, poll bool
	if w.realm.scripts.AnonymousRounds {
		over, poll = w.heardOfNamelessLocked(message)
	} else {
		over = w.heardLocked(message)
	}
	w.realm.mu.Unlock()
	if poll {
		w.realm.polls.Put(w)
	}
	if over {
		w.ends.Close()
	}
}

// heardLocked believes who knows the nonce of the round.
func (w *watch) heardLocked(message string) (over bool) {
	e, ok := readEntry(message)
	if !ok || e.state == counting {
		return false
	}
	a := w.waits[wish{round: e.stamp}]
	switch {
	case a == nil:
	case a.nonce == "":
		a.rumoured = true // the reply to the poll under way may be older
	case a.nonce == e.nonce:
		w.endLocked(a, e.state.outcome())
		return w.overLocked()
	}
	return false
}

// The messages of nameless rounds: one has opened; one was started, or deleted.
const toldOpen, toldChange = "0", "1"

// heardOfNamelessLocked lets a poll confirm that a round has opened. The message may be the late end of the round before, or of
// the latch of that name in another database, which has the same channel. A poll that finds the latch running publishes its
// fence, and messages of a channel keep their order. So a fence behind the end of a round says that a new round has begun, if a
// start was heard between, and else that the end was another's. Fences of others are worth no poll: they would cause each other.
func (w *watch) heardOfNamelessLocked(message string) (over, poll bool) {
	switch message {
	case toldOpen:
		for _, a := range w.waits {
			if a.fenced { // only a fence of a poll from here on counts
				a.rumoured, a.changed, a.fenced, a.fences = true, false, false, nil
			}
		}
		return false, len(w.waits) > 0
	case toldChange:
		for _, a := range w.waits {
			a.changed = true
		}
		return false, true
	}
	for _, a := range w.waits {
		switch {
		case !slices.Contains(a.fences, message):
		case a.rumoured && a.changed:
			w.endLocked(a, nil)
		default:
			a.fenced, a.rumoured = true, false
		}
	}
	return w.overLocked(), false
}
