// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// logInterval is how long events of one sort are collected for one line of the log. While they continue it doubles with each line, up to
// maxLogInterval.
const logInterval, maxLogInterval = time.Second, time.Minute

// Logs writes a line for what may happen a thousand times at once: one for each sort of event and logInterval, with the number of
// events and the first of them. The line is written at the end of that time, or by Close.
type Logs struct {
	lost, lostIdle, unconfirmed, slept, failed, panicked eventBatch
	hooks, retried, otherCount, unread, readAgain        eventBatch

	session *Session
	writer  logWriter

	warnedOfEviction, warnedOfServers atomic.Bool  // the log says that keys may be evicted; that connections lead to different servers
	leftHolds                         atomic.Int64 // the number of holds that Close ended
}

type logLevel = func(l *slog.Logger, message string, attributes ...any)

// eventBatch is the events of one sort that are not logged yet.
type eventBatch struct {
	session *Session
	message string
	log     logLevel
	entry   timers.Timer

	mu struct {
		sync.Mutex
		events   int
		first    []any         // the attributes of the first event
		interval time.Duration // how long the events of the last line were collected; 0 before the first one
		written  time.Duration // when the last line was due, on the monotonic clock
	}
}

func (l *Logs) init(s *Session) {
	for b, message := range map[*eventBatch]string{
		&l.lost:        "signalbox: a lease was lost before it was unlocked",
		&l.lostIdle:    "signalbox: the server lost a lock that was kept while no goroutine used it (WithKeepWarm); the next call acquires it anew",
		&l.unconfirmed: "signalbox: the server did not confirm a release; it is repeated in the background until the key ends",
		&l.slept:       "signalbox: the host was suspended, or its wall clock was set forward; leases that are over by the wall clock end",
		&l.failed:      "signalbox: a function failed after its caller had left, so no call returns its error",
		&l.panicked:    "signalbox: a function panicked",
		&l.hooks:       "signalbox: a hook of the observer panicked",
		&l.otherCount:  "signalbox: a member joined a group that has another count than its set: Resize changes the count, or members that are all made with the other one",
		&l.unread:      "signalbox: shards were granted, and no goroutine has read a change of the member for a minute: it releases them, and takes no more until one reads",
		&l.readAgain:   "signalbox: the changes of a member are read again, and it takes its share of the shards",
		&l.retried:     "signalbox: a Locker cannot lock, and tries again",
	} {
		b.session, b.message, b.log = s, message, (*slog.Logger).Warn
		b.entry.Init(b)
	}
	l.hooks.log, l.readAgain.log, l.session = (*slog.Logger).Error, (*slog.Logger).Info, s // an end is no warning
}

// Lost logs that a lease ended under its holder.
func (l *Logs) Lost(labels observe.Labels, end hold.End) {
	l.lost.add(labels, lossOf(end)...)
}

func lossOf(end hold.End) []any {
	attributes := []any{"error", end.Cause, "gone", end.Gone, "left", max(end.Left, 0).Round(time.Millisecond)}
	if end.Token != 0 {
		attributes = append(attributes, "token", end.Token)
	}
	return attributes
}

// LostIdle logs that the server had a hold no more that no goroutine used.
func (l *Logs) LostIdle(labels observe.Labels) { l.lostIdle.add(labels) }

// Unconfirmed logs that a release had no reply.
func (l *Logs) Unconfirmed(labels observe.Labels, err error) { l.unconfirmed.add(labels, "error", err) }

// Refused logs that the server refused the operation op, for now or for want of a right.
func (l *Logs) Refused(labels observe.Labels, op string, err error) {
	l.session.Outages.returned(labels, op, err)
}

// Failed logs the error of a function whose caller has left.
func (l *Logs) Failed(labels observe.Labels, err error) { l.failed.add(labels, "error", err) }

// Panicked logs the panic of a function that runs on a goroutine of the library.
func (l *Logs) Panicked(labels observe.Labels, cause any, stack []byte) {
	l.panicked.add(labels, "panic", cause, "stack", string(stack))
}

// OtherCount logs that a member joined a group of so many shards, and that its set has wanted ones.
func (l *Logs) OtherCount(labels observe.Labels, shards, wanted int) {
	l.otherCount.add(labels, "shards", shards, "set", wanted)
}

// Unread logs that a member releases so many shards of which its program has not learnt.
func (l *Logs) Unread(labels observe.Labels, shards int) { l.unread.add(labels, "shards", shards) }

// ReadAgain logs that a member takes its share again.
func (l *Logs) ReadAgain(labels observe.Labels) { l.readAgain.add(labels) }

// Retried logs why a Locker tries again.
func (l *Logs) Retried(labels observe.Labels, err error) { l.retried.add(labels, "error", err) }

// flush logs the events that are not logged yet. It is called when the timers are closed.
func (l *Logs) flush() {
	for _, b := range []*eventBatch{
		&l.lost, &l.lostIdle, &l.unconfirmed, &l.slept, &l.failed, &l.panicked, &l.hooks, &l.retried, &l.otherCount, &l.unread, &l.readAgain,
	} {
		b.write()
	}
}

// add counts an event. The first one schedules the line.
func (b *eventBatch) add(labels observe.Labels, attributes ...any) {
	now := timers.Mono()
	b.mu.Lock()
	b.mu.events++
	first := b.mu.events == 1
	if first {
		b.mu.first = append(attributesFor(labels), attributes...)
		if since := now - b.mu.written; b.mu.interval > 0 && since < maxLogInterval {
			b.mu.interval = min(2*b.mu.interval, maxLogInterval)
		} else {
			b.mu.interval = logInterval
		}
		b.mu.written = now + b.mu.interval
	}
	interval := b.mu.interval
	b.mu.Unlock()
	if first {
		b.session.Timers.Schedule(&b.entry, interval)
	}
}

// attributesFor returns what a line says about a lock. Most locks have no class, and some lines are about no lock.
func attributesFor(labels observe.Labels) []any {
	switch {
	case labels == (observe.Labels{}):
		return nil
	case labels.Class == "":
		return []any{"kind", labels.Kind, "name", errs.Shorten(labels.Name)}
	}
	return []any{"kind", labels.Kind, "class", labels.Class, "name", errs.Shorten(labels.Name)}
}

// Fire implements timers.Firer: the line is due.
func (b *eventBatch) Fire() { b.write() }

// write writes the line, and counts in it what happens until then: while a line is waiting behind another there is no second.
func (b *eventBatch) write() {
	b.session.Logs.writer.add(func() {
		b.mu.Lock()
		events, first := b.mu.events, b.mu.first
		b.mu.events, b.mu.first = 0, nil
		b.mu.Unlock()
		if events > 0 {
			b.log(b.session.Logger(), b.message, append(first, "events", events)...)
		}
	})
}

// warnOfEviction logs once that the server may drop the keys of locks when its memory is full: limit is its
// maxmemory and policy its maxmemory-policy, both "" if they are not available. Every policy but noeviction
// does, since keys of locks have a TTL.
func (l *Logs) warnOfEviction(limit, policy string) {
	if limit == "" || limit == "0" || policy == "" || policy == "noeviction" || l.warnedOfEviction.Swap(true) {
		return
	}
	l.log((*slog.Logger).Warn, "the server evicts keys when its memory is full, and a lock whose key is evicted is lost: "+
		"set maxmemory-policy to noeviction, or keep locks on a server of their own",
		"maxmemory", limit, "maxmemory-policy", policy)
}

// MessagesLost implements notify.Monitor.
func (l *Logs) MessagesLost(err error) {
	l.session.Outages.messagesLost(err)
	l.session.Settings.Observer.OnPolling(err)
}

// MessagesBack implements notify.Monitor.
func (l *Logs) MessagesBack() {
	l.session.Outages.messagesBack()
	l.session.Settings.Observer.OnSubscribed()
}

// ServersDiffer implements notify.Monitor. The log says it once: until the address means one server, it happens again.
func (l *Logs) ServersDiffer() {
	if !l.warnedOfServers.Swap(true) {
		l.log((*slog.Logger).Warn, "signalbox: two connections of the session led to different servers, as after a failover behind one address; "+
			"the one for messages was made anew")
	}
}

// hookPanicked logs that a hook of the observer panicked. A hook that always does would fill the log.
func (l *Logs) hookPanicked(cause any, stack []byte) {
	l.hooks.add(observe.Labels{}, "panic", cause, "stack", string(stack))
}

// Left logs a hold that Close ended.
func (l *Logs) Left(labels observe.Labels, held time.Duration) {
	if l.leftHolds.Add(1) <= maxLogged {
		l.log((*slog.Logger).Warn, "signalbox: Close ended a lease that was not unlocked yet", append(attributesFor(labels), "held", held)...)
	}
}

// leftMore logs how many holds Close ended beyond those that have a line.
func (l *Logs) leftMore() {
	if more := l.leftHolds.Load() - maxLogged; more > 0 {
		l.log((*slog.Logger).Warn, "signalbox: Close ended further leases", "leases", more)
	}
}

// Warn writes a line that holds up nothing.
func (l *Logs) Warn(message string, attributes ...any) {
	l.log((*slog.Logger).Warn, message, attributes...)
}

// log writes a line that belongs to no call.
func (l *Logs) log(level logLevel, message string, attributes ...any) {
	l.writer.add(func() { level(l.session.Logger(), message, attributes...) })
}

// logWriter writes lines of the log, one after the other, on a goroutine that runs while there are lines. The handler of a logger
// is the program's own code: one that blocks holds up nothing but later lines, and Close no longer than its context; one that
// calls the session waits for nothing that waits for it; and a panic in it, or the end of its goroutine, loses its line alone.
type logWriter struct {
	mu struct {
		sync.Mutex
		waiting []func()
		written chan struct{} // closed when no line is waiting or being written; nil while none is
	}
}

// add lets write be called after the lines before it.
func (l *logWriter) add(write func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.waiting = append(l.mu.waiting, write)
	if l.mu.written == nil {
		l.mu.written = make(chan struct{})
		go l.writeAll() // it ends under the lock under which it finds no line waiting
	}
}

func (l *logWriter) writeAll() {
	for {
		l.mu.Lock()
		if len(l.mu.waiting) == 0 {
			close(l.mu.written)
			l.mu.written = nil
			l.mu.Unlock()
			return
		}
		write := l.mu.waiting[0]
		l.mu.waiting = l.mu.waiting[1:]
		l.mu.Unlock()
		l.writeOne(write)
	}
}

// writeOne calls write, and ends a panic in it. If write ends the goroutine, another one writes the other lines.
func (l *logWriter) writeOne(write func()) {
	returned := false
	defer func() {
		if recover() == nil && !returned {
			go l.writeAll()
		}
	}()
	write()
	returned = true
}

// await blocks until the lines that were added are written, or until ctx ends.
func (l *logWriter) await(ctx context.Context) {
	l.mu.Lock()
	written := l.mu.written
	l.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}
