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
	// settlePatience is how long a batch of settlements waits for its replies.
	undoPatience = time.Second
	// maxSettlements bounds a pipeline.
	maxUndos = 200
)

// Settlement is a call that is to be repeated, off its caller's path, until it is known to
// have settled what it is for.
type Undo struct {
	Call wire.Call
	// Until is when it is not worth repeating any more: the key has ended by itself.
	Until clock.Instant
	// Arrives is until when the call that is taken back may still be executed; zero if it cannot be. After
	// that ErrWrongKind settles it: the key belongs to another program.
	ExecutableUntil clock.Instant
	// Settled handles a reply, and returns when to ask again: 0 is never. It may set Until.
	OnReply func(wire.Reply) (again time.Duration)
	// Over, if it is not nil, is called once when the settlement is settled or given up, with no lock held.
	// err is the last refusal of the server, or nil after a reply.
	OnDone func(err error)

	entry  timers.Timer
	undoer *Undoer
	tries  int
}

// Again returns when to take back a call again that may still be executed for left, and whose hold lasts for
// life: 0 is never. If the not-after of the call was guessed too late, by the clock of another node or of
// this one before a step, the call may be executed long after the intended patience.
func (t *Undo) RepeatAfter(left, life time.Duration) time.Duration {
	if left > 0 {
		t.Until = clock.Now().Add(min(left, MaxClockSkew) + life)
	}
	return left
}

// Settler takes back calls whose outcome is unknown. It repeats each settlement off its caller's path until a
// reply says that it is settled, or until the key that it is for has expired by itself. If the server refuses
// a settlement, it is repeated too. Only ErrWrongKind settles it, once nothing of it can arrive any more.
//
// Settlements that are due together go in one pipeline, on a goroutine that exists only for it.
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

// NewSettler returns a Settler that starts nothing by itself.
func NewUndoer(runner *wire.Runner, t *timers.Timers) *Undoer {
	s := &Undoer{runner: runner, timers: t}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.batches = timers.NewCollector(t, s.sendAll)
	s.mu.open = make(map[*Undo]struct{})
	return s
}

// Settle begins a settlement, which must not be used otherwise any more.
func (s *Undoer) Start(t *Undo) {
	t.undoer = s
	t.entry.Init(t)
	s.mu.Lock()
	s.mu.open[t] = struct{}{}
	s.mu.Unlock()
	s.batches.Put(t)
}

// Open returns how many settlements are under way.
func (s *Undoer) Pending() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}

// Fire implements timers.Event: time for the next try.
func (t *Undo) Fire() { t.undoer.batches.Put(t) }

// hasArrived reports whether the call that is taken back can no longer be executed.
func (t *Undo) isExecuted(now clock.Instant) bool {
	return t.ExecutableUntil.IsZero() || t.ExecutableUntil.Mono() <= now.Mono()
}

func (s *Undoer) sendAll(undos []*Undo) {
	ctx, cancel := context.WithTimeout(s.ctx, undoPatience)
	defer cancel()
	for chunk := range slices.Chunk(undos, maxUndos) {
		s.send(ctx, chunk)
	}
}

// settle sends one pipeline.
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
		case errors.Is(outcomes[i].Err, errs.ErrWrongKind) && t.isExecuted(now):
			// There is nothing of ours, and nothing can come.
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

// Close waits until everything is settled or ctx ends. What is not settled then is given up:
// it ends on the server by itself.
func (s *Undoer) Close(ctx context.Context) {
	settled := make(chan struct{})
	s.mu.Lock()
	if len(s.mu.open) == 0 {
		close(settled)
	} else {
		s.mu.done = settled
	}
	s.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
	}
	s.cancel()
}

// Stop waits for the batches under way, after Close.
func (s *Undoer) Stop() { s.batches.Close() }
