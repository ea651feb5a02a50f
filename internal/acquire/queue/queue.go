// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"crypto/rand"
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Keys are those of one lock, and the channel of its grants.
type LockKeys struct {
	// Holder is the key that names the holder.
	Holder string
	// All are the keys of Enter, Look and Leave, in their order. The last one has the lives of the waiting sessions.
	All []string
	// Grants is the channel without the session that it ends with, or, for a lock without a queue, the channel of its messages.
	Channel string
	// Slot is that of the keys, in a cluster.
	Slot uint16
}

// Queue is the queue of one lock, from the view of one session. The lock of its Lines guards its fields. A
// session has one Queue for each lock that it holds, so that it is small until an attempt has to wait.
type Queue struct {
	lines *Registry
	keys  *LockKeys // assigned once
	*wait           // nil until an attempt had to wait

	users, attempts int32    // attempts are those that Lines knows
	comers, asked   int32    // how many of them enter or wait, and for how many of these an enter was sent
	spare           bool     // kept though no caller uses it
	wish            *Request // of the newest of them
	holding         *Attempt // the newest exclusive hold of the session, until its release begins
	ear             *ear     // hears its grants; nil if no attempt waits, or needs it yet
}

// wait is the waiting in one queue.
type wait struct {
	next    timers.Entry  // the next poll; if no caller uses the queue, the time to forget it
	waiting []*Attempt    // with tickets, in order of arrival
	turn    int           // which of them the next poll lists
	heard   clock.Instant // when the newest heartbeat that had a reply was sent
	last    error         // why the last poll had no reply, or nil
	planned bool          // a poll is scheduled
	due     time.Duration // monotonic: when it is due

	// What the last poll saw. While nothing of it changes, heartbeats alone are sent.
	seen   wire.Stamp    // of the hold; 0 if there was none, or a poll is due
	ends   time.Duration // monotonic: that hold lasts at least until then
	polled time.Duration // monotonic: when that poll was sent
}

// waitsLocked makes sure that the queue has a wait.
func (q *Queue) waitsLocked() {
	if q.wait == nil {
		q.wait = new(wait)
		q.next.Init(q)
	}
}

// heardLocked records that a heartbeat sent at sent had a reply.
func (q *Queue) heardLocked(sent clock.Instant) {
	q.waitsLocked()
	if q.heard.IsZero() || sent.Mono() > q.heard.Mono() {
		q.heard = sent
	}
}

// repliedLocked records that the server replied.
func (q *Queue) repliedLocked() {
	if q.wait != nil {
		q.last = nil
	}
}

// beat is one heartbeat: the session counts as living for life from its execution, and so for
// life from its first sending. There is one for each number, and none is ever changed.
type beat struct {
	number string
	sent   clock.Instant
	life   time.Duration
}

// over is when what b paid for can be trusted no more.
func (b beat) over() clock.Instant { return clock.Deadline(b.sent, b.life) }

// Done counts a user out.
func (q *Queue) Done() { q.lines.Done(q) }

// beatLocked returns a heartbeat for a call that is about to be sent. Calls that follow each other within a 64th of a life
// share one, whatever queue they are for: the grant that it pays for is counted from the first of them, which is never too
// late.
func (ls *Registry) beatLocked(now clock.Instant) beat {
	life, beats := ls.lifeLocked(), ls.mu.beats
	if n := len(beats); n > 0 && beats[n-1].life == life && now.Mono()-beats[n-1].sent.Mono() < life/64 {
		return beats[n-1]
	}
	kept := 0
	for kept < len(beats) && beats[kept].over().Reached(now) {
		kept++
	}
	b := beat{number: ls.nextNumberLocked(), sent: now, life: life}
	ls.mu.beats = append(append(beats[:0], beats[kept:]...), b)
	return b
}

// paidLocked returns the heartbeat with that number, if it is known and not over.
func (ls *Registry) paidLocked(number string, now clock.Instant) (beat, bool) {
	for _, b := range ls.mu.beats {
		if b.number == number {
			return b, !b.over().Reached(now)
		}
	}
	return beat{}, false
}

// beatenLocked reports whether a heartbeat had a reply so recently that another one is not worth it.
func (q *Queue) beatenLocked(now clock.Instant) bool {
	return q.wait != nil && !q.heard.IsZero() && !q.heard.Add(q.lines.lifeLocked()/8).Reached(now)
}

// nextNumberLocked returns the number of a heartbeat that is about to be sent. Numbers rise over all queues
// while the session lives. 48 random bits follow the digits: two copies of one process, restored from one
// snapshot, must not mistake each other's heartbeats for their own.
func (ls *Registry) nextNumberLocked() string {
	ls.mu.number++
	var random [6]byte
	_, _ = rand.Read(random[:]) // crypto/rand.Read never fails: it ends the process instead
	const digits = numberSize - 8
	number := make([]byte, digits, numberSize)
	for i := range number {
		number[i] = '0'
	}
	count := strconv.FormatInt(ls.mu.number, 10)
	copy(number[digits-len(count):], count)
	return string(base64.RawURLEncoding.AppendEncode(number, random[:]))
}

// lives is how many pauses between polls a waiter's life lasts: two polls may fail. The scripts reject a life of
// more than lives times dispatch.PollCeiling.
const lives = 3

// everyLocked returns the current pause between polls.
func (q *Queue) everyLocked() time.Duration {
	few := dispatch.PollInterval
	if q.ear != nil {
		few = q.ear.PollInterval()
	}
	return dispatch.ScaledInterval(few, q.lines.mu.waited)
}

// lifeLocked returns for how long a heartbeat makes the session count as living. It grows in steps, since a heartbeat
// serves calls for one life alone.
func (ls *Registry) lifeLocked() time.Duration {
	const step = dispatch.PollInterval / 4
	every := (time.Duration(ls.mu.waited)*dispatch.PollCost + step - 1).Truncate(step)
	return lives * min(max(dispatch.PollInterval, every), dispatch.MaxPollInterval)
}

// Fire implements timers.Event: the next poll is due, or no caller has come for a while.
func (q *Queue) Fire() { q.lines.looks.Put(q) }

// pollLocked polls at once.
func (q *Queue) pollLocked() {
	if q.wait != nil {
		q.seen = 0
	}
	q.lines.looks.Put(q)
}

// LastError implements wire.Poll.
func (q *Queue) LastError() error {
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	if q.wait == nil {
		return nil
	}
	return q.last
}

// busy reports whether a caller of this session is before a new one with that request: it holds, requests or
// releases the lock. If several can hold the lock at once, only a caller that waits in the queue counts, not
// one that is about to enter.
func (q *Queue) busy(wish *Request) bool {
	q.lines.mu.Lock()
	defer q.lines.mu.Unlock()
	if !wish.Shared {
		return q.attempts > 0
	}
	return q.wait != nil && slices.ContainsFunc(q.waiting, func(a *Attempt) bool { return a.state == queued })
}

// hear makes sure that grants are heard, or will be. The caller waits in q.
func (q *Queue) hear() {
	ls := q.lines
	ls.mu.Lock()
	if q.ear == nil {
		q.ear = ls.earLocked(q.keys.Channel + ls.session.ID())
	}
	e := q.ear
	ls.mu.Unlock()
	e.Open(ls.session.Dispatch, e.channel, dispatch.ShardedChannel, e)
}

// hearAlready starts to listen for grants if that costs nothing: before the first enter, which then need not
// be followed by a poll.
func (q *Queue) hearAlready() {
	s := q.lines.session
	if s.Dispatch.Channels() > 0 && s.Dispatch.IsSubscribed(q.keys.Channel+s.ID()) {
		q.hear()
	}
}
