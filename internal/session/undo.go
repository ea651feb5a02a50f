// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	firstRetry, lastRetry = 20 * time.Millisecond, time.Second
	// undoPatience is how long a batch of undos waits for its replies.
	undoPatience = time.Second
	// maxUndos bounds a pipeline.
	maxUndos = 200
)

// Undo is a call that undoes another one of unknown outcome. It is repeated, off its caller's path, until a reply
// says that it is done.
type Undo struct {
	Call wire.Call
	// Until is when the undo need not be repeated any more: the key has ended by itself.
	Until clock.Instant
	// ExecutableUntil is until when the call that is undone may still be executed; zero if it cannot be. After
	// that ErrWrongKind ends the undo: the key belongs to another program.
	ExecutableUntil clock.Instant
	// OnReply handles a reply, and returns when to send the undo again: 0 is never. It may set Until.
	OnReply func(wire.Reply) (again time.Duration)
	// OnDone, if it is not nil, is called once when the undo is done or given up, with no lock held.
	// err is the last refusal of the server, or nil after a reply.
	OnDone func(err error)

	entry  timers.Timer
	undoer *Undoer
	tries  int
}

// RepeatAfter returns when to undo a call again that may still be executed for left, and whose hold lasts for
// life: 0 is never. If the not-after of the call was guessed too late, by the clock of another node or of
// this one before a step, the call may be executed long after the intended patience.
func (t *Undo) RepeatAfter(left, life time.Duration) time.Duration {
	if left > 0 {
		t.Until = clock.Now().Add(min(left, MaxClockSkew) + life)
	}
	return left
}

// Undoer undoes calls whose outcome is unknown. It repeats each undo off its caller's path until a
// reply says that it is done, or until the key has expired by itself. If the server refuses an undo, it is
// repeated too, except after ErrWrongKind: that ends it, once the call that is undone can no longer be executed.
//
// Undos that are due together go in one pipeline, on a goroutine that exists only for it.
type Undoer struct {
	runner  *wire.Runner
	timers  *timers.Timers
	batches *timers.Collector[*Undo]
	ctx     context.Context //nolint:containedctx // ends when Close has waited long enough
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		open map[*Undo]struct{}
		done chan struct{} // closed when open is empty; nil unless Close waits
	}
}

// NewUndoer returns an Undoer that starts nothing by itself.
func NewUndoer(runner *wire.Runner, t *timers.Timers) *Undoer {
	s := &Undoer{runner: runner, timers: t}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.batches = timers.NewCollector(t, s.sendAll)
	s.mu.open = make(map[*Undo]struct{})
	return s
}

// Start begins an undo, which must not be used otherwise any more.
func (s *Undoer) Start(t *Undo) {
	t.undoer = s
	t.entry.Init(t)
	s.mu.Lock()
	s.mu.open[t] = struct{}{}
	s.mu.Unlock()
	s.batches.Put(t)
}

// Pending returns how many undos are under way.
func (s *Undoer) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}

// Fire implements timers.Firer: time for the next try.
func (t *Undo) Fire() { t.undoer.batches.Put(t) }

// isPastExecution reports whether the call that is undone can no longer be executed.
func (t *Undo) isPastExecution(now clock.Instant) bool {
	return t.ExecutableUntil.IsZero() || t.ExecutableUntil.Mono() <= now.Mono()
}

func (s *Undoer) sendAll(undos []*Undo) {
	ctx, cancel := context.WithTimeout(s.ctx, undoPatience)
	defer cancel()
	for chunk := range slices.Chunk(undos, maxUndos) {
		s.send(ctx, chunk)
	}
}

// send sends one pipeline.
func (s *Undoer) send(ctx context.Context, undos []*Undo) {
	calls := make([]wire.Call, len(undos))
	for i, t := range undos {
		calls[i] = t.Call
	}
	outcomes := s.runner.RunMany(ctx, calls)
	now := clock.Now()
	for i, t := range undos {
		var again time.Duration
		switch {
		case outcomes[i].Err == nil:
			again = t.OnReply(outcomes[i].Reply)
		case errors.Is(outcomes[i].Err, errs.ErrWrongKind) && t.isPastExecution(now):
			// There is no hold of ours, and none can come.
		case !errors.Is(outcomes[i].Err, errs.ErrClosed):
			// After any refusal: a hold that cannot be released now may be released before its key ends.
			again = min(firstRetry<<min(t.tries, 10), lastRetry)
			t.tries++
		}
		if again == 0 || now.Mono()+again >= t.Until.Mono() {
			s.finish(t, outcomes[i].Err)
			continue
		}
		s.timers.Schedule(&t.entry, again)
	}
}

func (s *Undoer) finish(t *Undo, err error) {
	if t.OnDone != nil {
		t.OnDone(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, t)
	if len(s.mu.open) == 0 && s.mu.done != nil {
		close(s.mu.done)
		s.mu.done = nil
	}
}

// Close waits until every undo is done or ctx ends. The others are given up:
// their keys end on the server by themselves.
func (s *Undoer) Close(ctx context.Context) {
	done := make(chan struct{})
	s.mu.Lock()
	if len(s.mu.open) == 0 {
		close(done)
	} else {
		s.mu.done = done
	}
	s.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
}

// Stop waits for the batches under way, after Close.
func (s *Undoer) Stop() { s.batches.Close() }
