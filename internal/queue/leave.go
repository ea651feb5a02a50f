// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Abandon leaves the queue, or releases the lock, off the caller's path. If a copy of the enter may still be on its way, it
// does that once more after the not-after. If Close has withdrawn a, its leave is being repeated already.
func (a *Attempt) Abandon() {
	if a.end() == withdrawn {
		return
	}
	if a.footprint.IsEmpty() {
		a.forget()
	} else {
		leaveExchange{a}.repeatLeave()
	}
}

// end sets the state to over, unless a is withdrawn, and returns it. Nothing changes the state or the footprint after that.
func (a *Attempt) end() attemptState {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.endLocked()
	return a.state
}

func (a *Attempt) endLocked() {
	if !a.state.isEnded() {
		a.toLocked(over)
	}
	a.localHold = nil
	if a.q.newestHold == a {
		a.q.newestHold = nil
	}
}

// Release releases the lock, and waits for the reply until ctx ends. lastUsed is the stamp of the last token that was used.
// Release returns false if the hold no longer had the lock. After an error the release is repeated in the background: see
// handleReleaseError.
func (a *Attempt) Release(ctx context.Context, lastUsed wire.Stamp, expiresIn time.Duration) (wasHeld bool, err error) {
	// The state is begun until the server replies. Otherwise a poll that still lists the attempt would cause another leave.
	// That leave could be executed first, and the release would find nothing to release.
	mayFree, purse := leaveExchange{a}.beginRelease(lastUsed), &a.q.registry.purse
	if mayFree && purse.allows() {
		if wasHeld, err = (leaveExchange{a}).free(ctx, lastUsed); wasHeld {
			leaveExchange{a}.endFreed()
			return true, nil
		}
	}
	var reply wire.Reply
	if err == nil {
		reply, err = leaveExchange{a}.sendLeave(ctx, lastUsed)
	}
	a.end()
	if err != nil {
		leaveExchange{a}.handleReleaseError(err, expiresIn)
		return false, err
	}
	left := proto.ReadLeft(&reply)
	if left.NoQueue {
		if (idleHold{a}).releasedUnwanted(); mayFree {
			purse.pay(1)
		}
	}
	leaveExchange{a}.applyGranted(left.Granted)
	leaveExchange{a}.finish(left.MayHaveTicket())
	return left.WasHeld(), nil
}

// sendLeave sends one leave.
func (a leaveExchange) sendLeave(ctx context.Context, lastUsed wire.Stamp) (wire.Reply, error) {
	var keys [maxKeys]string // on the stack, as are the arguments
	var args [maxArgs]string
	runner, call := a.q.registry.session.Runner, a.leaveCall(keys[:0], args[:0], lastUsed)
	reply, err := runner.Run(ctx, call)
	if err != nil && wire.TryAgain(err) {
		return runner.Run(ctx, a.withHolderKeyAlone(call)) // releases the lock, and leaves the queue as it is
	}
	return reply, err
}

// handleReleaseError repeats a release until the hold has expired, which takes expiresIn at most. A script that lacks a right
// stops in its middle, and a script that granted a the lock may have left the ticket. Then the release is repeated for as
// long as the ticket lasts, if that is longer.
func (a leaveExchange) handleReleaseError(err error, expiresIn time.Duration) {
	if errors.Is(err, errs.ErrDenied) && a.footprint.Left == session.TicketLeft {
		a.footprint.Note(session.TicketBesideHold) // the script that granted a the lock may have lacked the right, too
	}
	if errors.Is(err, errs.ErrDenied) && !a.footprint.HasNoTicket() {
		expiresIn = max(expiresIn, a.ticketLife())
	}
	a.repeatLeaveFor(expiresIn)
}

// finish forgets a, which is over and had a reply to its release, unless something of a may still be at the server, or arrive
// there.
func (a leaveExchange) finish(mayHaveTicket bool) { //nolint:revive // a fact about the reply, not a switch
	if mayHaveTicket || a.footprint.Unknown {
		a.repeatLeave()
	} else {
		a.forget()
	}
}

// withHolderKeyAlone returns the call to send instead of a leave that was refused because its slot is being moved.
func (a leaveExchange) withHolderKeyAlone(call wire.Call) wire.Call {
	if drop := a.q.registry.protocol.Drop; drop != nil {
		return wire.Call{Script: drop, Keys: call.Keys[:1], Args: []string{a.Name()}}
	}
	return withHolderKeyAlone(call)
}

// withHolderKeyAlone returns the call to send instead of a call of an exclusive kind that was refused because its slot is being moved.
func withHolderKeyAlone(call wire.Call) wire.Call {
	call.Keys = call.Keys[:1]
	return call
}

// leaveCall returns the call that ends a. Its keys and arguments are appended to keys and args. lastUsed is the stamp of the last
// token that was used, or 0 if it is not known.
func (a leaveExchange) leaveCall(keys, args []string, lastUsed wire.Stamp) wire.Call {
	registry, s := a.q.registry, a.q.registry.session
	certain := proto.Flag(a.footprint.HasNoTicket())
	if registry.protocol.isExclusive() {
		leave := proto.Leave{
			Ticket: a.Name(), Session: s.ID(), Verb: s.PublishCommand(), Channel: a.q.channel(), KeepMS: a.request.FloorTTL,
			Used: a.usedArg(lastUsed), Certain: certain,
		}
		args = leave.AppendTo(args)
	} else {
		leave := proto.LeaveShared{
			Hold: a.Name(), Session: s.ID(), Verb: s.PublishCommand(), Channel: a.q.channel(), KeepMS: a.request.FloorTTL, Certain: certain,
		}
		args = leave.AppendTo(args)
	}
	return wire.Call{Script: registry.protocol.Leave, Keys: a.q.keys.AppendKeys(keys), Args: args}
}

// usedArg returns the stamp of the last token that was used as an argument of scripts, or "" if it is not known. The scripts
// know the stamp of the hold, and keep it if the argument is less. Only the caller that releases the hold knows lastUsed, and
// for that caller the grant does not change any more.
func (a leaveExchange) usedArg(lastUsed wire.Stamp) string {
	switch {
	case lastUsed == 0:
		return ""
	case lastUsed <= a.grant.Stamp:
		return proto.FirstUsed
	}
	return lastUsed.Text()
}

// repeatLeave repeats the leave for as long as the ticket or the hold of a can last.
func (a leaveExchange) repeatLeave() { a.repeatLeaveFor(a.ticketLife()) }

// ticketLife returns how long a ticket of a, or the hold that follows it, lasts without heartbeats of the session.
func (a leaveExchange) ticketLife() time.Duration {
	return session.MaxPatience + max(a.request.Life, pollsPerLife*notify.MaxPollInterval)
}

// repeatLeaveFor repeats the leave off the caller's path until it has a reply. If the outcome of an enter is unknown, it
// continues until that enter can no longer be executed. Callers may have locked the mutex: a is over.
func (a leaveExchange) repeatLeaveFor(lasts time.Duration) {
	undo := a.footprint.Undo(a.leaveCall(nil, nil, 0), lasts, a.request.Life)
	undo.OnDone = a.handleRepetitionEnd
	undo.OnReply = func(reply wire.Reply) time.Duration {
		left := proto.ReadLeft(&reply)
		if a.applyGranted(left.Granted); left.MayHaveTicket() {
			return max(a.footprint.ExecutableFor(left.Now), session.BackOffPause(0))
		}
		again := undo.AfterCopies(left.Now)
		if again == 0 {
			a.forget()
		}
		return again
	}
	a.q.registry.session.Undoer.Start(undo)
}

// handleRepetitionEnd handles the end of the repeated leave. If the leave was not confirmed and the session still uses the
// queue, the heartbeats of the session would keep the ticket of a alive, and other waiters would wait for it. So the
// repetition continues, unless the leave can never succeed.
func (a leaveExchange) handleRepetitionEnd(err error) {
	registry := a.q.registry
	registry.mu.Lock()
	isKnown := registry.mu.attempts.get(a.id()) == a.Attempt
	// After a reply the leave is confirmed: a copy of the enter could only be executed long after its patience, by a clock that was set
	// back, and a leave that is sent again at once would find nothing again.
	continues := isKnown && err != nil && a.q.users > 0 && registry.session.Ready() == nil && !wire.EndsUndo(err)
	if isKnown && !continues {
		a.forgetLocked()
	}
	registry.mu.Unlock()
	if continues {
		a.repeatLeave()
	}
}

func (a leaveExchange) applyGranted(g proto.Granted) { a.q.registry.ApplyGranted(a.q.keys.Holder, g) }

// ApplyGranted handles what a script replied that granted the lock to attempts of this session.
func (r *Queues) ApplyGranted(holder string, g proto.Granted) {
	if r.applyGrants(g.Grants); g.PollAtOnce {
		r.pollNow(holder)
	}
}

// pollNow polls a queue at once, if an attempt of this session waits in it.
func (r *Queues) pollNow(holder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.mu.queues.get(holder); q != nil {
		q.pollLocked()
	}
}

// purse says when the short release is worth a try. A try that finds a mark, or another hold, is a miss: it costs a round trip
// more, and the next waiter waits for that. A hit pays in 2. A leave pays in 1 if its reply says that the short release would have
// been a hit. A miss takes missCost, and a try needs as much. So at most one release in 16 is a miss, in whatever order they
// come, and none before the session has released missCost locks without a queue.
type purse struct{ paid atomic.Int32 }

const missCost, maxPaid = 32, 4 * 32

// allows reports whether the next release may try. Several tries at once may all be misses: the purse is below zero then, and
// that is paid in before the next try.
func (p *purse) allows() bool { return p.paid.Load() >= missCost }

// pay pays n in, or takes it if n is negative.
func (p *purse) pay(n int32) {
	if n < 0 || p.paid.Load() < maxPaid {
		p.paid.Add(n)
	}
}

// free releases the lock with the short release, which does nothing if the holder key has another hold or a mark. It reports
// whether the lock is released.
func (a leaveExchange) free(ctx context.Context, lastUsed wire.Stamp) (isFree bool, err error) {
	registry := a.q.registry
	var memory [1 + 3]string // on the stack
	call := proto.Free{Unmarked: a.text, KeepMS: a.request.FloorTTL, Used: a.usedArg(lastUsed)}
	reply, err := registry.session.Runner.Run(ctx, wire.Call{
		Script: registry.protocol.Free, Keys: append(memory[:0:1], a.q.keys.Holder), Args: call.AppendTo(memory[1:1]),
	})
	switch {
	case err != nil:
		return false, err
	case reply.Code() == wire.Done:
		registry.purse.pay(2)
		return true, nil
	}
	registry.purse.pay(-missCost)
	return false, nil
}

// beginRelease records that a is released: it is not evicted any more. It reports whether a could be released by the short
// release: it acquired the lock at once and is sure to have no ticket, the last token is known, and no attempt of this session or,
// as far as is known, of another one has marked the key.
func (a leaveExchange) beginRelease(lastUsed wire.Stamp) (mayFree bool) {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.localHold = nil
	return a.footprint.Left == session.UnmarkedHoldLeft && a.footprint.HasNoTicket() && lastUsed != 0 && a.q.pending == 0 && !a.idle.isRecalled()
}

// endFreed ends a, of which the server has nothing any more.
func (a leaveExchange) endFreed() {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	a.endLocked()
	a.forgetLocked()
}

// pastTickets has the last attempts that had a ticket, and of which the server has nothing any more. A failover that loses the end of
// one brings back its ticket, which the heartbeats of the session keep alive. An attempt that is not in it may be that of a copy of this
// process, which has the same session id.
type pastTickets struct {
	all  []pastTicket // at most maxPast
	next int          // the index of the oldest, which the next one replaces, if there are maxPast
}

// pastTicket is what is needed to leave once more.
type pastTicket struct {
	keys    *proto.Set
	text    string // that of the attempt
	request *Request
}

// maxPast is how many attempts are remembered: more than a session ends between two states of a server and its replica.
const maxPast = 1024

func (p *pastTickets) add(a *Attempt) {
	past := pastTicket{a.q.keys, a.text, a.request}
	if len(p.all) < maxPast {
		p.all = append(p.all, past)
		return
	}
	p.all[p.next] = past
	p.next = (p.next + 1) % maxPast
}

// leaveAgainLocked leaves for an attempt that is over, because the server has a ticket or a hold of it again. ticket begins with its id
// within the session. If no such attempt is remembered, leaveAgainLocked does nothing.
func (r *Queues) leaveAgainLocked(ticket string) {
	for _, past := range r.mu.past.all {
		if strings.HasPrefix(ticket, idIn(past.text)) {
			a := &Attempt{q: &Queue{registry: r, keys: past.keys}, text: past.text, request: past.request, state: over}
			a.leftTicketLocked()
			leaveExchange{a}.repeatLeave()
			return
		}
	}
}
