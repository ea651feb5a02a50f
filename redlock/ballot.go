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
var errLost = errors.New("no quorum granted the lock")

// choice is what one server replied to an acquire.
type choice int

const (
	silent   choice = iota // nothing yet
	granted                // the hold has it there
	held                   // another hold has it there
	refused                // it did not, and will not, grant this attempt: err says why
	doubtful               // it granted or did not: err says why that is not known
)

// vote is what one server has to do with an attempt.
type vote struct {
	choice   choice
	stamp    wire.Stamp    // granted
	left     time.Duration // held: until its key ends
	rival    string        // held: the attempt that has it
	err      error
	notAfter wire.Stamp // doubtful: until when, there, it may still take effect
}

// seat is what a ballot has of one server.
type seat struct {
	vote                 // not written once the ballot is over
	sent   bool          // the acquire was, or is about to be
	late   vote          // what came then, while the release was under way; the release sees to it
	asked  bool          // the release is under way to a server that was silent until then
	given  bool          // the release ended the hold there: nothing is left to do, whatever the reply to the acquire will be
	sure   bool          // once the ballot is over: nothing of it is there any more
	surely chan struct{} // closed then; nil if no ballot waits for it
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
	lock    *Lock
	attempt string
	claims  []string      // by server: the hold there, and what stands behind it in its key
	mark    bool          // waiters want messages
	sent    clock.Instant // before anything was
	// rechecks is how often the holds of the group had been rechecked before that.
	rechecks uint64
	decided  chan struct{} // closed when a quorum granted, or none can any more

	mu struct {
		sync.Mutex
		seats []seat // by server
		tally tally
		over  bool
		floor string // a stamp, not before the token that the hold's leases have; zeros if they have no token
	}
}

// noFloor is the floor if no token was returned.
const noFloor = "0000000000000000"

// unmarked stands behind the hold in the holder key, before the label, if no session waits for a message of its release.
const unmarked = "----------------------"

// ask begins an attempt. The caller is counted in at every session.
func (l *Lock) ask(mark bool) *ballot {
	b := &ballot{lock: l, attempt: l.base.Session.NewAttempt(), mark: mark, decided: make(chan struct{})}
	b.rechecks, b.sent = l.group.holds.asked(), clock.Now()
	b.mu.tally.n, b.mu.floor = len(l.members), noFloor
	b.mu.seats, b.claims = make([]seat, len(l.members)), make([]string, len(l.members))
	for i, m := range l.members {
		b.claims[i] = m.ID() + b.attempt + unmarked + m.Settings.Label
	}
	before := l.last.Swap(b)
	spread(l.members, func(i int, m *session.Session) {
		patience := m.Patient(replyWithin(l.base.Terms.Life()))
		v := vote{choice: refused, err: errBefore}
		if before.isGone(patience, i) {
			v = b.try(patience, i, m)
		}
		patience.End()
		b.count(i, v)
	})
	return b
}

// try asks one server; a second time where its clock had to be learnt anew, since a late acquire wrote nothing.
func (b *ballot) try(ctx context.Context, i int, m *session.Session) vote {
	if err := m.Handshake(ctx, b.lock.keys[0]); err != nil {
		return vote{choice: refused, err: err}
	}
	if !b.sends(i) {
		return vote{choice: refused, err: errLost} // the ballot is over, and nothing was sent
	}
	v := b.tryOnce(ctx, i, m)
	if v.choice == refused && errors.Is(v.err, errLate) {
		v = b.tryOnce(ctx, i, m)
	}
	return v
}

// holdSize is the length of a hold's id.
const holdSize = 41

// hold returns the hold on one server.
func (b *ballot) hold(i int) string { return b.claims[i][:holdSize] }

// vote returns what one server has said until now.
func (b *ballot) vote(i int) vote {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.seats[i].vote
}

// sends reports whether the acquire is to be sent to a server still, and takes note that it is.
func (b *ballot) sends(i int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.seats[i].sent = !b.mu.over
	return !b.mu.over
}

// errLate says that a server would have granted later than it may.
var errLate = errors.New("the server took longer than the lease lasts")

func (b *ballot) tryOnce(ctx context.Context, i int, m *session.Session) vote {
	l := b.lock
	notAfter := m.NotAfter(0, clock.Now(), l.base.Terms.First())
	mark := ""
	if b.mark {
		mark = m.ID()
	}
	reply, err := m.Runner.Run(ctx, wire.Call{
		Script: scripts.RedlockAcquire,
		Keys:   l.keys,
		Args:   []string{b.claims[i], l.lifeMS, notAfter.Text(), mark, l.greatestUS},
	})
	switch {
	case wire.CrossSlot(err):
		return vote{choice: refused, err: fmt.Errorf("%w: several shards stand behind its address: a quorum is made of single servers: %w", errs.ErrBadOption, err)}
	case err != nil && wire.MayHaveRun(err):
		return vote{choice: doubtful, err: err, notAfter: notAfter}
	case err != nil:
		return vote{choice: refused, err: err}
	}
	v, now := read(reply)
	v.notAfter = notAfter // for one that cannot be read
	if now != 0 {
		m.Clock.Observe(0, now, clock.Now())
	}
	return v
}

// read returns what a reply says, and the server's time.
func read(reply wire.Reply) (v vote, now wire.Stamp) {
	if now = reply.Stamp(0); now != 0 {
		return vote{choice: granted, stamp: now}, now
	}
	switch reply.Code() {
	case wire.Done:
		return vote{choice: granted, stamp: reply.Stamp(1)}, reply.Stamp(2)
	case wire.NotDone:
		left := time.Duration(reply.Int(1)) * time.Millisecond
		return vote{choice: held, left: left, rival: reply.Text(3)}, reply.Stamp(2)
	case wire.Late:
		return vote{choice: refused, err: errLate}, reply.Stamp(1)
	case wire.TooYoung:
		left := time.Duration(reply.Int(1)) * time.Microsecond
		err := fmt.Errorf("%w: it is new, or lost its data lately, and may have forgotten a hold: it grants nothing for %v more",
			errs.ErrRefused, left.Round(time.Millisecond))
		return vote{choice: refused, err: err, left: left}, reply.Stamp(2)
	case wire.Foreign:
		return vote{choice: refused, err: session.WrongKind(reply.Text(1))}, 0
	default:
		return vote{choice: doubtful, err: wire.ErrUnreadable}, 0
	}
}

// count adds one server's vote, or releases what it granted if the ballot is over.
func (b *ballot) count(i int, v vote) {
	b.mu.Lock()
	at, over := &b.mu.seats[i], b.mu.over
	switch {
	case !over:
		at.vote = v
	case at.asked:
		at.late = v
	}
	isOurs := over && !at.asked && !at.given
	if b.mu.tally.add(v.choice == granted) {
		close(b.decided)
	}
	b.mu.Unlock()
	if isOurs {
		b.takeBack(i, v)
	}
}

// elected waits for the outcome and returns the stamp of the token, or the reason why there is no token:
// then the ballot is over.
func (b *ballot) elected(ctx context.Context) (wire.Stamp, error) {
	select {
	case <-b.decided:
	case <-ctx.Done():
		b.end()
		return 0, errs.Ended(ctx)
	}
	b.mu.Lock()
	verdict, token := b.mu.tally.verdict(), wire.Stamp(0)
	for i := range b.mu.seats {
		token = max(token, b.mu.seats[i].stamp)
	}
	b.mu.Unlock()
	err := errLost
	if verdict == carried {
		token, err = b.fence(ctx, token)
	}
	// Checked now that the last needed reply is in, also if this goroutine slept meanwhile.
	if err == nil && clock.Deadline(b.sent, b.lock.base.Terms.First()).Reached(clock.Now()) {
		err = errLate
	}
	if err != nil {
		b.end()
		return 0, err
	}
	b.mu.Lock()
	b.mu.floor = token.Text()
	b.mu.Unlock()
	return token, nil
}
