// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// longestReply bounds how long a ballot waits for one server.
const longestReply = time.Second

// replyWithin is how long a ballot waits for one server if a quorum has not decided without it: a tenth of
// the lease, which leaves most of it, and no more than longestReply.
func replyWithin(life time.Duration) time.Duration { return min(life/10, longestReply) }

// errLost says that no quorum granted. The votes say why.
var errNoQuorum = errors.New("no quorum granted the lock")

// choice is what one server replied to an acquire.
type voteResult int

const (
	silent    voteResult = iota // nothing yet
	granted                     // the hold has it there
	held                        // another hold has it there
	refused                     // it did not, and will not, grant this attempt: err says why
	uncertain                   // it granted or did not: err says why that is not known
)

// vote is what one server has to do with an attempt.
type vote struct {
	result   voteResult
	stamp    wire.Stamp    // granted
	left     time.Duration // held: until its key ends
	rival    string        // held: the attempt that has it
	err      error
	notAfter wire.Stamp // doubtful: until when, there, it may still take effect
}

// seat is what a ballot has of one server.
type serverState struct {
	vote                    // not written once the ballot is over
	sent      bool          // the acquire was, or is about to be
	lateVote  vote          // what came then, while the release was under way; the release sees to it
	releasing bool          // the release is under way to a server that was silent until then
	released  bool          // the release ended the hold there: nothing is left to do, whatever the reply to the acquire will be
	gone      bool          // once the ballot is over: nothing of it is there any more
	whenGone  chan struct{} // closed then; nil if no ballot waits for it
}

// ballot is one attempt to acquire a lock, at all servers at once. Each server's hold is the id of its own
// session, and the attempt, which all of them share. No session is a member twice, so a server with two
// sessions finds its key held by another hold when the second call arrives, and votes once.
//
//	Open ---a quorum granted--> carried ---a hold began--> its hold's, until that ends
//	  |                            | too late, not fenced, session closed
//	  |---no quorum can grant------+
//	  |---the caller left----------+--> over
//
// Once it is over, what servers have of it is released: what was known then by the goroutine that ended it,
// what comes later by the goroutine that gets the reply. Both check under the lock, so one of them sees it.
type ballot struct {
	lock         *Lock
	attempt      string
	holderValues []string      // by server: the hold there, and what stands behind it in its key
	wantsMessage bool          // waiters want messages
	sent         clock.Instant // before anything was
	// rechecks is how often the holds of the group had been rechecked before that.
	rechecks uint64
	decided  chan struct{} // closed when a quorum granted, or none can any more

	mu struct {
		sync.Mutex
		servers []serverState // by server
		tally   tally
		closed  bool
		floor   string // a stamp, not before the token that the hold's leases have; zeros if they have no token
	}
}

// noFloor is the floor if no token was returned.
const noFloor = "0000000000000000"

// unmarked stands behind the hold in the holder key, before the label, if no session waits for a message of its release.
const noWaiterID = "----------------------"

// ask begins an attempt. The caller is counted in at every session.
func (l *Lock) startBallot(wantsMessage bool) *ballot {
	b := &ballot{lock: l, attempt: l.base.Session.NewAttempt(), wantsMessage: wantsMessage, decided: make(chan struct{})}
	b.rechecks, b.sent = l.group.holds.recheckCount(), clock.Now()
	b.mu.tally.n, b.mu.floor = len(l.members), noFloor
	b.mu.servers, b.holderValues = make([]serverState, len(l.members)), make([]string, len(l.members))
	for i, m := range l.members {
		b.holderValues[i] = m.ID() + b.attempt + noWaiterID + m.Settings.Label
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

// try asks one server; a second time where its clock had to be learnt anew, since a late acquire wrote nothing.
func (b *ballot) try(ctx context.Context, i int, m *session.Session) vote {
	if err := m.Handshake(ctx, b.lock.keys[0]); err != nil {
		return vote{result: refused, err: err}
	}
	if !b.markSent(i) {
		return vote{result: refused, err: errNoQuorum} // the ballot is over, and nothing was sent
	}
	v := b.tryOnce(ctx, i, m)
	if v.result == refused && errors.Is(v.err, errLate) {
		v = b.tryOnce(ctx, i, m)
	}
	return v
}

// holdSize is the length of a hold's id.
const holdSize = 41

// hold returns the hold on one server.
func (b *ballot) hold(i int) string { return b.holderValues[i][:holdSize] }

// vote returns what one server has said until now.
func (b *ballot) vote(i int) vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.servers[i].vote
}

// sends reports whether the acquire is to be sent to a server still, and takes note that it is.
func (b *ballot) markSent(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.servers[i].sent = !b.mu.closed
	return !b.mu.closed
}

// errLate says that a server would have granted later than it may.
var errLate = errors.New("the server took longer than the lease lasts")

func (b *ballot) tryOnce(ctx context.Context, i int, m *session.Session) vote {
	l := b.lock
	notAfter := m.NotAfter(0, clock.Now(), l.base.Terms.First())
	waiterID := ""
	if b.wantsMessage {
		waiterID = m.ID()
	}
	reply, err := m.Runner.Run(ctx, wire.Call{
		Script: scripts.RedlockAcquire,
		Keys:   l.keys,
		Args:   []string{b.holderValues[i], l.lifeMS, notAfter.Text(), waiterID, l.greatestUS},
	})
	switch {
	case wire.CrossSlot(err):
		return vote{result: refused, err: fmt.Errorf("%w: several shards stand behind its address: a quorum is made of single servers: %w", errs.ErrBadOption, err)}
	case err != nil && wire.MayHaveRun(err):
		return vote{result: uncertain, err: err, notAfter: notAfter}
	case err != nil:
		return vote{result: refused, err: err}
	}
	v, now := parseReply(reply)
	v.notAfter = notAfter // for one that cannot be read
	if now != 0 {
		m.Clock.Observe(0, now, clock.Now())
	}
	return v
}

// read returns what a reply says, and the server's time.
func parseReply(reply wire.Reply) (v vote, now wire.Stamp) {
	if now = reply.Stamp(0); now != 0 {
		return vote{result: granted, stamp: now}, now
	}
	switch reply.Code() {
	case wire.Done:
		return vote{result: granted, stamp: reply.Stamp(1)}, reply.Stamp(2)
	case wire.NotDone:
		left := time.Duration(reply.Int(1)) * time.Millisecond
		return vote{result: held, left: left, rival: reply.Text(3)}, reply.Stamp(2)
	case wire.Late:
		return vote{result: refused, err: errLate}, reply.Stamp(1)
	case wire.TooYoung:
		left := time.Duration(reply.Int(1)) * time.Microsecond
		err := fmt.Errorf("%w: it is new, or lost its data lately, and may have forgotten a hold: it grants nothing for %v more",
			errs.ErrRefused, left.Round(time.Millisecond))
		return vote{result: refused, err: err, left: left}, reply.Stamp(2)
	case wire.Foreign:
		return vote{result: refused, err: session.WrongKind(reply.Text(1))}, 0
	default:
		return vote{result: uncertain, err: wire.ErrUnreadable}, 0
	}
}

// count adds one server's vote, or releases what it granted if the ballot is over.
func (b *ballot) record(i int, v vote) {
	b.mu.Lock()
	at, over := &b.mu.servers[i], b.mu.closed
	switch {
	case !over:
		at.vote = v
	case at.releasing:
		at.lateVote = v
	}
	isOurs := over && !at.releasing && !at.released
	if b.mu.tally.add(v.result == granted) {
		close(b.decided)
	}
	b.mu.Unlock()
	if isOurs {
		b.undoVote(i, v)
	}
}

// elected waits for the outcome and returns the stamp of the token, or the reason why there is no token:
// then the ballot is over.
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
	if err == nil && clock.Deadline(b.sent, b.lock.base.Terms.First()).Reached(clock.Now()) {
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
