// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// pollPatience is how long a batch of polls waits for its replies.
	pollPatience = time.Second
	// maxPolls bounds a pipeline.
	maxPolls = 200
	// maxFences is how many fences may be on their way to a waiter. The others will not come any more.
	maxFences = 16
)

// poll is one poll of a latch, for the rounds that were waited for when it was sent: its reply may not know
// of later ones yet.
type poll struct {
	watch *watch
	waits map[wish]*awaited
	fence string // "" for none
}

// Fire implements timers.Event: the next poll is due.
func (w *watch) Fire() { w.realm.polls.Put(w) }

// pollAll polls the latches that are due in one tick.
func (r *realm) pollAll(watches []*watch) {
	ctx, cancel := errs.WithTimeout(r.ctx, pollPatience)
	defer cancel()
	for chunk := range slices.Chunk(r.prepare(watches), maxPolls) {
		calls := make([]wire.Call, len(chunk))
		for i, l := range chunk {
			calls[i] = r.poll(l.watch.keys, l.fence)
		}
		for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
			chunk[i].replied(outcome)
		}
	}
}

// prepare returns a poll for each of these latches that still has a waiter.
func (r *realm) prepare(watches []*watch) []poll {
	r.mu.Lock()
	defer r.mu.Unlock()
	polls := make([]poll, 0, len(watches))
	asked := make(map[*watch]bool, len(watches))
	for _, w := range watches {
		if !asked[w] && !w.dropped {
			asked[w] = true
			polls = append(polls, poll{w, maps.Clone(w.waits), w.fenceLocked()})
		}
	}
	return polls
}

// fenceLocked returns a fence for a poll, if a waiter for a nameless round has not heard one: a unique number
// that Redisson ignores.
func (w *watch) fenceLocked() (fence string) {
	if !w.realm.scripts.AnonymousRounds || w.ends.IsUnsubscribed() {
		return ""
	}
	for _, a := range w.waits {
		if a.fenced {
			continue
		}
		if fence == "" {
			fence = strconv.FormatInt(2+rand.Int64N(math.MaxInt64-2), 10)
		}
		a.fences = append(a.fences[max(0, len(a.fences)-maxFences+1):], fence)
	}
	return fence
}

// poll returns the call that asks how a latch stands.
func (r *realm) poll(k keys, fence string) wire.Call {
	call := wire.Call{Script: r.scripts.Poll, Keys: []string{k.latch}}
	if r.scripts.AnonymousRounds {
		call.Args = []string{fence, r.session.PublishCommandsIn(r.layout), k.ended}
	}
	return call
}

// replied handles the reply to a poll.
func (l poll) replied(outcome wire.Outcome) {
	w, r := l.watch, l.watch.realm
	var a account
	err := outcome.Err
	if err == nil {
		a, err = readLook(outcome.Reply)
	}
	r.mu.Lock()
	if w.last = nil; err != nil && (wire.Judge(err) != wire.Unknown || wire.IsReplyError(err)) {
		w.last = err
	}
	w.replied = w.replied || err == nil // a right that was there before may come back
	again := false
	for what, waits := range l.waits {
		if w.waits[what] != waits {
			continue // over, or without a waiter
		}
		switch {
		case err != nil && wire.Judge(err) == wire.Final && !(w.replied && errors.Is(err, errs.ErrDenied)):
			w.endLocked(waits, err)
		case err != nil:
		case a.of(what.round) != counting:
			w.endLocked(waits, a.of(what.round).outcome())
		default:
			again = again || waits.nonce == "" && waits.rumoured
			waits.nonce = a.newest.nonce
		}
	}
	over := w.overLocked()
	if !w.dropped {
		w.scheduleLocked()
	}
	r.mu.Unlock()
	switch {
	case over:
		w.ends.Close()
	case again:
		r.polls.Put(w)
	}
}

// scheduleLocked schedules the next poll.
func (w *watch) scheduleLocked() {
	w.realm.session.Timers.Schedule(&w.next, dispatch.JitteredInterval(w.ends.PollInterval(), len(w.realm.mu.watches)))
}
