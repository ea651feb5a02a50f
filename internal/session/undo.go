// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	firstRetry, lastRetry = 20 * time.Millisecond, time.Second
	// undoPatience is how long a batch of undos waits for its replies.
	undoPatience = time.Second
	// maxUndos bounds a pipeline, and maxInFlight the undos that are at the server. Thousands of waiters may be cancelled at once, and
	// other calls wait behind what is sent for them. More undos would only have their replies too late, and be sent again.
	maxUndos, maxInFlight = 200, 1000
)

// Undo is a call that undoes another one of unknown outcome. It is repeated, off its caller's path, until a reply
// says that it is done.
type Undo struct {
	Call wire.Call
	// Until is when the undo need not be repeated any more: the key has ended by itself.
	Until timers.Instant
	// OnReply handles a reply, and returns when to send the undo again: 0 is never. It may set Until.
	OnReply func(wire.Reply) (again time.Duration)
	// OnDone, if it is not nil, is called once when the undo is done or given up, with no lock held.
	// err is the last refusal of the server, or nil after a reply.
	OnDone func(err error)

	// Footprint.Undo sets the next three. executableUntil is until when a request that is undone may still be executed; zero
	// if none can be. After that an error that wire.EndsUndo knows ends the undo.
	executableUntil timers.Instant
	footprint       Footprint
	life            time.Duration // how long a hold lasts that a copy of a request makes

	entry  timers.Timer
	undoer *Undoer
	tries  int
}

// AfterCopies returns when to undo again after a reply at server, the server's time: when no copy of a request can be executed
// any more. 0 is never. If a not-after was guessed too late, by the clock of another node or of this one before a step, a copy
// may be executed long after the intended patience.
func (u *Undo) AfterCopies(server wire.Stamp) time.Duration {
	left := u.footprint.ExecutableFor(server)
	if left > 0 {
		u.Until = timers.Now().Add(min(left, MaxClockSkew) + u.life)
	}
	return left
}

// Undoer undoes calls whose outcome is unknown. It repeats each undo off its caller's path until a
// reply says that it is done, or until the key has expired by itself. If the server refuses an undo, it is
// repeated too, except after an error that wire.EndsUndo knows: that ends it, once the call that is undone can no longer be executed.
//
// Undos that are due together go in one pipeline, on a goroutine that exists only for that. The undos that are too many for now
// wait until others have their replies, or are given up.
type Undoer struct {
	runner  *wire.Runner
	timers  *timers.Timers
	batches *timers.Collector[*Undo]
	ctx     context.Context //nolint:containedctx // ends when Close has waited long enough
	cancel  context.CancelFunc

	mu struct {
		sync.Mutex
		open     map[*Undo]struct{}
		done     chan struct{} // closed when open is empty; nil unless Close waits
		ready    []*Undo       // the undos that are due and not sent, in order
		inFlight int           // the number of undos that were sent
	}
}

// NewUndoer returns an Undoer that starts nothing by itself.
func NewUndoer(runner *wire.Runner, t *timers.Timers) *Undoer {
	un := &Undoer{runner: runner, timers: t}
	un.ctx, un.cancel = context.WithCancel(context.Background())
	un.batches = timers.NewCollector(t, un.sendAll)
	un.mu.open = make(map[*Undo]struct{})
	return un
}

// Start begins an undo, which must not be used otherwise any more.
func (un *Undoer) Start(u *Undo) {
	u.undoer = un
	u.entry.Init(u)
	un.mu.Lock()
	un.mu.open[u] = struct{}{}
	un.mu.Unlock()
	un.batches.Put(u)
}

// Pending returns how many undos are under way.
func (un *Undoer) Pending() int {
	un.mu.Lock()
	defer un.mu.Unlock()
	return len(un.mu.open)
}

// Fire implements timers.Firer: time for the next try.
func (u *Undo) Fire() { u.undoer.batches.Put(u) }

// isPastExecution reports whether no request that is undone can be executed any more.
func (u *Undo) isPastExecution(now timers.Instant) bool {
	return u.executableUntil.IsZero() || u.executableUntil.Mono() <= now.Mono()
}

// sendAll sends undos, and after them what other goroutines found to be too many. No undo is left: the goroutine whose undos have their
// replies takes what came meanwhile, in one step.
func (un *Undoer) sendAll(undos []*Undo) {
	for next := un.next(undos, 0); len(next) > 0; next = un.next(nil, len(next)) {
		un.send(next)
	}
}

// next returns what the caller sends next: some of the undos that are ready, to which it adds due. The caller has the outcome of undos
// that it has sent.
func (un *Undoer) next(due []*Undo, sent int) []*Undo {
	un.mu.Lock()
	defer un.mu.Unlock()
	un.mu.inFlight -= sent
	un.mu.ready = append(un.mu.ready, due...)
	n := min(len(un.mu.ready), maxUndos, maxInFlight-un.mu.inFlight)
	if un.ctx.Err() != nil {
		n = 0
	}
	un.mu.inFlight += n
	next := un.mu.ready[:n:n]
	if un.mu.ready = un.mu.ready[n:]; len(un.mu.ready) == 0 {
		un.mu.ready = nil
	}
	return next
}

// send sends one pipeline.
func (un *Undoer) send(undos []*Undo) {
	ctx, cancel := context.WithTimeout(un.ctx, undoPatience)
	defer cancel()
	calls := make([]wire.Call, len(undos))
	for i, u := range undos {
		calls[i] = u.Call
	}
	outcomes := un.runner.RunMany(ctx, calls)
	now := timers.Now()
	for i, u := range undos {
		var again time.Duration
		switch {
		case outcomes[i].Err == nil:
			again = u.OnReply(outcomes[i].Reply)
		case errors.Is(outcomes[i].Err, errs.ErrClosed), wire.EndsUndo(outcomes[i].Err) && u.isPastExecution(now):
			// There is no hold of ours, and none can come; or this session cannot end it.
		default:
			// After any refusal: a hold that cannot be released now may be released before its key ends.
			again = min(firstRetry<<min(u.tries, 10), lastRetry)
			u.tries++
		}
		if again == 0 || now.Mono()+again >= u.Until.Mono() {
			un.finish(u, outcomes[i].Err)
			continue
		}
		un.timers.Schedule(&u.entry, again)
	}
}

func (un *Undoer) finish(u *Undo, err error) {
	if u.OnDone != nil {
		u.OnDone(err)
	}
	un.mu.Lock()
	defer un.mu.Unlock()
	delete(un.mu.open, u)
	if len(un.mu.open) == 0 && un.mu.done != nil {
		close(un.mu.done)
		un.mu.done = nil
	}
}

// Close waits until every undo is done or ctx ends. The others are given up:
// their keys end on the server by themselves.
func (un *Undoer) Close(ctx context.Context) {
	done := make(chan struct{})
	un.mu.Lock()
	if len(un.mu.open) == 0 {
		close(done)
	} else {
		un.mu.done = done
	}
	un.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	un.cancel()
}

// Stop waits for the batches under way, after Close.
func (un *Undoer) Stop() { un.batches.Close() }

// Remains is the most that the requests of an attempt left at the server, by the replies to them.
type Remains uint8

const (
	// NothingLeft says that they left nothing.
	NothingLeft Remains = iota
	// UnmarkedHoldLeft says that they left a hold, and no ticket, and that the holder key has no mark: no queue could exist then.
	UnmarkedHoldLeft
	// HoldLeft says that they left a hold, and no ticket.
	HoldLeft
	// TicketLeft says that they left a ticket, or the hold that it was granted, which has removed the ticket.
	TicketLeft
	// TicketBesideHold says that they left a ticket, and perhaps a hold beside it.
	TicketBesideHold
)

// Footprint is what the server may have of an attempt. Every request of the attempt has the same id and a not-after, so one
// call undoes them all. The Footprint of an attempt that is over does not change any more.
type Footprint struct {
	Sent     int32      // the number of requests that were sent
	Left     Remains    // what the requests left that had a reply, or a refusal
	Unknown  bool       // a request had no reply: a copy of it may still be executed, until NotAfter
	NotAfter wire.Stamp // the latest not-after of the requests; 0 if none was sent
}

// Send records that a request is about to be sent.
func (f *Footprint) Send(notAfter wire.Stamp) {
	f.Sent, f.NotAfter = f.Sent+1, max(f.NotAfter, notAfter)
}

// Note records that a request may have left that.
func (f *Footprint) Note(what Remains) { f.Left = max(f.Left, what) }

// IsEmpty reports whether the server has nothing of the attempt.
func (f *Footprint) IsEmpty() bool { return !f.Unknown && f.Left == NothingLeft }

// HasNoTicket reports whether it is certain that an attempt which has a hold has no ticket beside it. Its only request must
// have had a reply.
func (f *Footprint) HasNoTicket() bool {
	return f.Sent == 1 && !f.Unknown && (f.Left == UnmarkedHoldLeft || f.Left == HoldLeft || f.Left == TicketLeft)
}

// ExecutableFor returns for how long after server, the server's time, a copy of a request may still be executed. It returns 0
// if no copy can be.
func (f *Footprint) ExecutableFor(server wire.Stamp) time.Duration {
	if !f.Unknown || server > f.NotAfter {
		return 0
	}
	return time.Duration(f.NotAfter-server)*time.Microsecond + 2*time.Millisecond
}

// Undo returns the undo, by call, of an attempt that is over. What the server has of it lasts for lasts, and a hold that a
// copy of a request makes lasts for life. The undo ends with the first reply after which no copy can be executed any more.
func (f *Footprint) Undo(call wire.Call, lasts, life time.Duration) *Undo {
	now := timers.Now()
	u := &Undo{Call: call, Until: now.Add(lasts), footprint: *f, life: life}
	if f.Unknown {
		u.executableUntil = now.Add(MaxPatience)
	}
	u.OnReply = func(reply wire.Reply) time.Duration { return u.AfterCopies(proto.ReadUndone(&reply).Now) }
	return u
}
