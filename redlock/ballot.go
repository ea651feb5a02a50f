// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// longestReply bounds how long a ballot waits for one server.
const longestReply = time.Second

// replyWithin is how long a ballot waits for one server if a quorum has not decided without it: a tenth of
// the lease, which leaves most of it, and no more than longestReply.
func replyWithin(life time.Duration) time.Duration { return min(life/10, longestReply) }

// errNoQuorum says that no quorum granted. The votes say why.
var errNoQuorum = errors.New("no quorum granted the lock")

// voteResult is what one server replied to an acquire.
type voteResult int

const (
	silent    voteResult = iota // no reply yet
	granted                     // the hold has the lock there
	held                        // another hold has the lock there
	refused                     // the server did not, and will not, grant this attempt: err says why
	uncertain                   // the server granted or did not: err says why that is not known
)

// vote is the reply of one server to an attempt.
type vote struct {
	result    voteResult
	stamp     wire.Stamp    // the stamp of the hold, if granted
	written   wire.Stamp    // the server's time of the reply, if granted, or of the sending, if uncertain
	left      time.Duration // the time until the key ends, if held
	rival     string        // the attempt that has the lock, if held
	err       error
	footprint session.Footprint // what the server may have of the attempt
}

// callPhase says how far a ballot is with one server.
type callPhase uint8

const (
	unsent    callPhase = iota // nothing was sent
	sent                       // the acquire was sent, or is about to be
	releasing                  // the release is under way to a server that was silent until then
	ended                      // the ballot is closed, and nothing of the attempt is left on the server
)

// serverState is what a ballot knows of one server.
type serverState struct {
	vote // not written once the ballot is closed

	voted    chan struct{} // closed when the server has voted; nil if the lock is not Fenced
	fenceErr error         // why the server did not keep the token
	isFenced bool          // the server keeps the token
	phase    callPhase
	lateVote vote          // the vote that came while the release was under way; the release handles it
	whenGone chan struct{} // closed when phase becomes ended; nil if no ballot waits for that
}

// ballot is one attempt to acquire a lock, at all servers at once. Each server's hold is the id of its own
// session, and the attempt, which all servers share. No session is a member twice, so a server with two
// sessions finds its key held by another hold when the second call arrives, and votes once.
//
//	open ---a quorum granted--> carried ---a hold began--> open until the hold ends
//	  |                            | too late, not fenced, session closed
//	  |---no quorum can grant------+
//	  |---the caller left----------+--> closed
//
// When a ballot is closed, the holds that servers granted to it are released: those known by then by the goroutine that
// closed it, a later one by the goroutine that gets the reply. Both check under the lock, so one of them sees each hold.
type ballot struct {
	lock         *Lock
	attempt      string
	holderValues []string       // by server: the hold there, and what follows it in the holder key
	wantsMessage bool           // a waiter wants a message when the lock is released
	sent         timers.Instant // an instant before anything was sent
	// rechecks is how often the holds of the group had been rechecked before sent.
	rechecks uint64
	decided  chan struct{} // closed when a quorum granted, or no quorum can any more
	// watched says that the replies to renewals are recorded by server; see observe. It is never unset.
	watched atomic.Bool

	mu struct {
		sync.Mutex
		servers []serverState // by server
		tally   tally
		closed  bool
		floor   string  // a stamp, not before the token that the hold's leases have; zeros if they have no token
		healing healing // nil until a server says that the hold is gone
	}
}

// noFloor is the floor if no token was returned.
const noFloor = "0000000000000000"

// noWaiterID follows the hold in the holder key, before the label, if no session waits for a message of the release.
const noWaiterID = "----------------------"

// startBallot begins an attempt. The caller is counted in at every session.
func (l *Lock) startBallot(wantsMessage bool) *ballot {
	b := &ballot{lock: l, attempt: l.base.Session.NewAttempt(), wantsMessage: wantsMessage, decided: make(chan struct{})}
	b.rechecks, b.sent = l.group.holds.recheckCount(), timers.Now()
	b.mu.tally.n, b.mu.floor = len(l.members), noFloor
	b.mu.servers, b.holderValues = make([]serverState, len(l.members)), make([]string, len(l.members))
	for i, m := range l.members {
		b.holderValues[i] = m.ID() + b.attempt + noWaiterID + m.Settings.Label
		if l.base.Quorum.Fenced {
			b.mu.servers[i].voted = make(chan struct{})
		}
	}
	previous := l.last.Swap(b)
	runAll(l.members, func(i int, m *session.Session) {
		patience := m.Patient(replyWithin(l.base.Terms.Life()))
		v := vote{result: refused, err: errNotReleased}
		if previous.awaitGone(patience, i) {
			v = b.try(patience, i, m)
		}
		patience.End()
		b.record(i, v)
	})
	return b
}

// try asks one server; a second time if its clock had to be learnt anew, since a late acquire wrote nothing.
func (b *ballot) try(ctx context.Context, i int, m *session.Session) vote {
	if err := m.Handshake(ctx, b.lock.keys[0]); err != nil {
		return vote{result: refused, err: err}
	}
	if err := checkSingle(m, i, len(b.lock.members)); err != nil {
		return vote{result: refused, err: wire.AsFinal(err)}
	}
	if !b.markSent(i) {
		return vote{result: refused, err: errNoQuorum} // the ballot is closed, and nothing was sent
	}
	v := b.tryOnce(ctx, i, m)
	if v.result == refused && errors.Is(v.err, errLate) {
		v = b.tryOnce(ctx, i, m)
	}
	return v
}

func (b *ballot) hold(i int) string { return b.holderValues[i][:proto.HoldSize] }

// vote returns what one server has replied until now.
func (b *ballot) vote(i int) vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.servers[i].vote
}

// markSent reports whether the acquire is still to be sent to a server, and records that it is.
func (b *ballot) markSent(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.closed {
		b.mu.servers[i].phase = sent
	}
	return !b.mu.closed
}

// errLate says that a server would have granted later than it may.
var errLate = errors.New("the server took longer than the lease lasts")

func (b *ballot) tryOnce(ctx context.Context, i int, m *session.Session) vote {
	l := b.lock
	now := timers.Now()
	notAfter, sent := m.NotAfter(0, now, l.base.Terms.First()), m.NotAfter(0, now, 0)
	lost := session.Footprint{Unknown: true, NotAfter: notAfter} // if there is no reply
	waiterID := ""
	if b.wantsMessage {
		waiterID = m.ID()
	}
	reply, err := m.Runner.Run(ctx, wire.Call{
		Script: proto.RedlockAcquireScript,
		Keys:   l.keys,
		Args: proto.RedlockAcquire{
			Hold: b.holderValues[i], TTLMS: l.lifeMS, NotAfter: notAfter.Text(), Waiter: waiterID, GreatestUS: l.greatestUS,
		}.AppendTo(nil),
	})
	switch {
	case wire.CrossSlot(err):
		return vote{result: refused, err: fmt.Errorf("%w: several shards stand behind its address: a quorum is made of single servers: %w", errs.ErrBadOption, err)}
	case err != nil && wire.MayHaveRun(err):
		return vote{result: uncertain, err: err, written: sent, footprint: lost}
	case err != nil:
		return vote{result: refused, err: err}
	}
	acquired := proto.ReadRedlockAcquired(&reply)
	v := parseReply(acquired)
	if v.footprint, v.written = (session.Footprint{Left: session.HoldLeft}), acquired.Now; v.result == uncertain {
		v.footprint, v.written = lost, sent // the reply cannot be read
	}
	if acquired.Now != 0 {
		m.Clock.Observe(0, acquired.Now, timers.Now())
	}
	return v
}

// parseReply returns what a reply says.
func parseReply(reply proto.RedlockAcquired) vote {
	switch reply.Code {
	case wire.Done:
		return vote{result: granted, stamp: reply.Stamp}
	case wire.NotDone:
		return vote{result: held, left: reply.Left, rival: reply.Rival}
	case wire.Late:
		return vote{result: refused, err: errLate}
	case wire.TooYoung:
		err := fmt.Errorf("%w: it is new, or lost its data lately, and may have forgotten a hold: it grants nothing for %v more",
			errs.ErrRefused, reply.Left.Round(time.Millisecond))
		return vote{result: refused, err: err, left: reply.Left}
	case wire.Foreign:
		return vote{result: refused, err: proto.WrongKind(reply.Kind)}
	default:
		return vote{result: uncertain, err: wire.ErrUnreadable}
	}
}

// record adds one server's vote, or releases what that granted if the ballot is closed.
func (b *ballot) record(i int, v vote) {
	b.mu.Lock()
	at, over := &b.mu.servers[i], b.mu.closed
	if v.result == uncertain {
		b.watched.Store(true) // a renewal may show what came of the acquire
	}
	switch {
	case !over:
		at.vote = v
	case at.phase == releasing:
		at.lateVote = v
	}
	isOurs := over && at.phase != releasing && at.phase != ended
	if at.voted != nil {
		close(at.voted)
	}
	if b.mu.tally.add(v.result == granted) {
		close(b.decided)
	}
	b.mu.Unlock()
	if isOurs {
		b.undoVote(i, v)
	}
}

// awaitOutcome waits for the outcome and returns the stamp of the token, or the reason why there is no token:
// then the ballot is closed.
func (b *ballot) awaitOutcome(ctx context.Context) (wire.Stamp, error) {
	select {
	case <-b.decided:
	case <-ctx.Done():
		b.abandon()
		return 0, errs.Ended(ctx)
	}
	b.mu.Lock()
	verdict, token := b.mu.tally.verdict(), wire.Stamp(0)
	for i := range b.mu.servers {
		token = max(token, b.mu.servers[i].stamp)
	}
	b.mu.Unlock()
	err := errNoQuorum
	if verdict == carried {
		token, err = b.fence(ctx, token)
	}
	// Checked now that the last needed reply is in, also if this goroutine slept meanwhile.
	if err == nil && timers.Deadline(b.sent, b.lock.base.Terms.First()).Reached(timers.Now()) {
		err = errLate
	}
	if err != nil {
		b.abandon()
		return 0, err
	}
	b.mu.Lock()
	b.mu.floor = token.Text()
	b.mu.Unlock()
	return token, nil
}

// awaitGrant waits until one server has voted, and reports whether it may have granted: a server that gets the token before the acquire
// has no hold to keep it for, and its vote may be the one that is needed.
func (b *ballot) awaitGrant(ctx context.Context, i int) bool {
	select {
	case <-b.mu.servers[i].voted: // assigned before the calls were sent
	case <-ctx.Done():
		return false
	}
	v := b.vote(i)
	return v.result == granted || v.result == uncertain
}

// fence makes a quorum store a token that is greater than all it knows of, if the lock is Fenced.
func (b *ballot) fence(ctx context.Context, last wire.Stamp) (wire.Stamp, error) {
	l := b.lock
	if !l.base.Quorum.Fenced {
		return last, nil
	}
	token := last + 1
	kept := make(chan bool, len(l.members))
	runAll(l.members, func(i int, m *session.Session) { //nolint:contextcheck // its time is its own
		patience := m.Patient(replyWithin(l.base.Terms.Life()))
		defer patience.End()
		if !b.awaitGrant(patience, i) {
			kept <- false
			return
		}
		reply, err := m.Runner.Run(patience, wire.Call{
			Script: proto.RedlockFenceScript,
			Keys:   []string{l.keys[0], l.keys[2]},
			Args:   proto.RedlockFence{ID: b.hold(i), Stamp: token.Text()}.AppendTo(nil),
		})
		b.mu.Lock()
		b.mu.servers[i].fenceErr = err
		b.mu.servers[i].isFenced = err == nil && reply.Code() != wire.NotDone
		isKept := b.mu.servers[i].isFenced
		b.mu.Unlock()
		kept <- isKept
	})
	count := tally{n: len(l.members)}
	for count.verdict() == open {
		select {
		case isKept := <-kept:
			count.add(isKept)
		case <-ctx.Done():
			return 0, errs.Ended(ctx)
		}
	}
	if count.verdict() == failed {
		return 0, errNoQuorum
	}
	return token, nil
}
