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
	settlePatience = time.Second
	// maxSettlements bounds a pipeline.
	maxSettlements = 200
)

// Settlement is a call that is to be repeated, off its caller's path, until it is known to
// have settled what it is for.
type Settlement struct {
	Call wire.Call
	// Until is when it is not worth repeating any more: the key has ended by itself.
	Until clock.Instant
	// Arrives is until when the call that is taken back may still be executed; zero if it cannot be. After
	// that ErrWrongKind settles it: the key belongs to another program.
	Arrives clock.Instant
	// Settled handles a reply, and returns when to ask again: 0 is never. It may set Until.
	Settled func(wire.Reply) (again time.Duration)
	// Over, if it is not nil, is called once when the settlement is settled or given up, with no lock held.
	// err is the last refusal of the server, or nil after a reply.
	Over func(err error)

	entry   timers.Entry
	settler *Settler
	tries   int
}

// Again returns when to take back a call again that may still be executed for left, and whose hold lasts for
// life: 0 is never. If the not-after of the call was guessed too late, by the clock of another node or of
// this one before a step, the call may be executed long after the intended patience.
func (t *Settlement) Again(left, life time.Duration) time.Duration {
	if left > 0 {
		t.Until = clock.Now().Add(min(left, MaxApart) + life)
	}
	return left
}

// Settler takes back calls whose outcome is unknown. It repeats each settlement off its caller's path until a
// reply says that it is settled, or until the key that it is for has expired by itself. If the server refuses
// a settlement, it is repeated too. Only ErrWrongKind settles it, once nothing of it can arrive any more.
//
// Settlements that are due together go in one pipeline, on a goroutine that exists only for it.
type Settler struct {
	runner  *wire.Runner
	timers  *timers.Timers
	batches *timers.Collector[*Settlement]
	ctx     context.Context //nolint:containedctx // ends when Close has waited long enough
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		open    map[*Settlement]struct{}
		settled chan struct{} // closed when open is empty; nil unless Close waits
	}
}

// NewSettler returns a Settler that starts nothing by itself.
func NewSettler(runner *wire.Runner, t *timers.Timers) *Settler {
	s := &Settler{runner: runner, timers: t}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.batches = timers.NewCollector(t, s.settleAll)
	s.mu.open = make(map[*Settlement]struct{})
	return s
}

// Settle begins a settlement, which must not be used otherwise any more.
func (s *Settler) Settle(t *Settlement) {
	t.settler = s
	t.entry.Init(t)
	s.mu.Lock()
	s.mu.open[t] = struct{}{}
	s.mu.Unlock()
	s.batches.Put(t)
}

// Open returns how many settlements are under way.
func (s *Settler) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}

// Fire implements timers.Event: time for the next try.
func (t *Settlement) Fire() { t.settler.batches.Put(t) }

// hasArrived reports whether the call that is taken back can no longer be executed.
func (t *Settlement) hasArrived(now clock.Instant) bool {
	return t.Arrives.IsZero() || t.Arrives.Mono() <= now.Mono()
}

func (s *Settler) settleAll(settlements []*Settlement) {
	ctx, cancel := context.WithTimeout(s.ctx, settlePatience)
	defer cancel()
	for chunk := range slices.Chunk(settlements, maxSettlements) {
		s.settle(ctx, chunk)
	}
}

// settle sends one pipeline.
func (s *Settler) settle(ctx context.Context, settlements []*Settlement) {
	calls := make([]wire.Call, len(settlements))
	for i, t := range settlements {
		calls[i] = t.Call
	}
	outcomes := s.runner.RunMany(ctx, calls)
	now := clock.Now()
	for i, t := range settlements {
		var again time.Duration
		switch {
		case outcomes[i].Err == nil:
			again = t.Settled(outcomes[i].Reply)
		case errors.Is(outcomes[i].Err, errs.ErrWrongKind) && t.hasArrived(now):
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

func (s *Settler) finish(t *Settlement, err error) {
	if t.Over != nil {
		t.Over(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, t)
	if len(s.mu.open) == 0 && s.mu.settled != nil {
		close(s.mu.settled)
		s.mu.settled = nil
	}
}

// Close waits until everything is settled or ctx ends. What is not settled then is given up:
// it ends on the server by itself.
func (s *Settler) Close(ctx context.Context) {
	settled := make(chan struct{})
	s.mu.Lock()
	if len(s.mu.open) == 0 {
		close(settled)
	} else {
		s.mu.settled = settled
	}
	s.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
	}
	s.cancel()
}

// Stop waits for the batches under way, after Close.
func (s *Settler) Stop() { s.batches.Close() }
