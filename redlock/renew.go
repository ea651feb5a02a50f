// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// quorumRunner sends renewals to all servers of a group as if they were one server. For each hold it returns what a
// quorum says: that the hold exists, or that it is gone. The deadline of a term counts from before the
// renewal was sent to the first server, so it is before the end of each key of that quorum.
type quorumRunner struct{ *sessionGroup }

// What holder/renew returns for a hold.
const (
	gone      int64 = 0
	alive     int64 = 1
	undecided int64 = -1
)

// minYoungPause is how much of a first lease must be left for one more renewal.
const minYoungPause = 200 * time.Millisecond

// RunByKey implements hold.BatchRunner. It returns when every hold is decided, or all servers have replied, or
// ctx ends. Servers that have not replied by then continue until ctx would have ended: their holds
// have to be renewed, too, and healed if they are gone.
func (r quorumRunner) RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply {
	round := r.newRound(batch)
	for _, m := range r.members {
		r.late.Go(func() {
			patience, cancel := r.patience(ctx)
			defer cancel()
			round.run(patience, m)
		})
	}
	select {
	case <-round.decided:
	case <-ctx.Done():
	}
	return round.replies()
}

// patience returns a context that ends at the deadline of ctx, or when the group closes.
func (r quorumRunner) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, dated := ctx.Deadline()
	if !dated {
		deadline = time.Now().Add(time.Second)
	}
	return context.WithDeadline(r.ctx, deadline)
}

// forMember returns the batch for one member: terms name holds by their attempt, and a hold begins with the id of the member.
func forMember(m *session.Session, batch wire.KeyedCall) wire.KeyedCall {
	terms := make([]string, 0, len(batch.PerKey))
	for k := range batch.Keys {
		term := proto.RenewalAt(batch.PerKey, k)
		term.Hold = m.ID() + term.Hold
		terms = term.AppendTo(terms)
	}
	batch.PerKey = terms
	return batch
}

// round is one batch of renewals, which goes to all servers of a group at once.
type round struct {
	group   *sessionGroup
	number  uint64         // later rounds of the group have greater ones
	sent    timers.Instant // an instant before anything was sent
	batch   wire.KeyedCall
	holds   []*quorumHold // by key; nil if a hold is being released
	decided chan struct{} // closed when every hold is decided, or all servers have replied

	mu struct {
		sync.Mutex
		tallies   []tally // by key
		undecided int     // the number of holds without a verdict
		awaited   int     // the number of servers without a reply
		isDecided bool    // decided is closed
	}
}

func (r quorumRunner) newRound(batch wire.KeyedCall) *round {
	d := &round{
		group: r.sessionGroup, number: r.rounds.Add(1), sent: timers.Now(), batch: batch, holds: r.holds.find(batch), decided: make(chan struct{}),
	}
	d.mu.tallies, d.mu.undecided, d.mu.awaited = make([]tally, len(batch.Keys)), len(batch.Keys), len(r.members)
	for i := range d.mu.tallies {
		d.mu.tallies[i].n = len(r.members)
	}
	return d
}

// run asks one server, and heals there what a quorum of the others has confirmed.
func (d *round) run(ctx context.Context, m *session.Session) {
	lacking := d.add(m, m.Runner.RunByKey(ctx, forMember(m, d.batch)))
	if len(lacking) == 0 {
		return
	}
	select {
	case <-d.decided:
	case <-ctx.Done(): // some may be decided
	}
	d.heal(m, lacking) //nolint:contextcheck // what it sends has the life of the lease, not that of the round
}

// lack is a hold of which one server lacks something, and for how long the server is to have it. 0 asks only: the round did so, or asked
// for the last life before WithMaxHold, or the hold is there and lacks its token alone.
type lack struct {
	key  int
	life time.Duration
}

// add counts the reply of one server: an error is no reply, and neither is a refusal. It returns what the server lacks.
func (d *round) add(m *session.Session, replies []wire.KeyedReply) (lacking []lack) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, s := range replies {
		h := d.holds[k]
		if s.Err != nil || s.Value < 0 {
			if h != nil && d.life(k) > 0 {
				h.renewYoung()
			}
			continue
		}
		isThere := s.Value == alive
		counts := isThere
		if h != nil && (!isThere || h.ballot.watched.Load()) {
			var lacks bool
			switch counts, lacks = h.observe(m, d.sent, isThere); {
			case lacks && isThere, lacks && d.life(k) < h.lock.base.Terms.Lease:
				lacking = append(lacking, lack{k, 0})
			case lacks:
				lacking = append(lacking, lack{k, d.life(k)})
			}
		}
		if d.mu.tallies[k].add(counts) {
			d.mu.undecided--
		}
	}
	d.mu.awaited--
	if !d.mu.isDecided && (d.mu.undecided == 0 || d.mu.awaited == 0) {
		d.mu.isDecided = true
		close(d.decided)
	}
	return lacking
}

// renewYoung renews h soon if a server did not reply to the renewal that makes more of its first lease. The next one, a third of
// the lease later, would come when the hold there has run out, and then the lease is healed nowhere: see ballot.healing.
func (h *quorumHold) renewYoung() {
	terms, now := &h.lock.base.Terms, timers.Now()
	left := h.ballot.sent.Add(terms.First()).Until(now)
	if left >= minYoungPause && terms.First() < terms.Lease/hold.RenewalsPerLife {
		h.Term.RenewBy(now.Add(left / 2))
	}
}

// isCarried reports whether a quorum has confirmed the hold of a key.
func (d *round) isCarried(k int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.tallies[k].verdict() == carried
}

// life returns the life that the round asked for a key: 0 if it asked only whether the hold is there.
func (d *round) life(k int) time.Duration {
	ms, err := strconv.ParseInt(proto.RenewalAt(d.batch.PerKey, k).TTLMS, 10, 64)
	if err != nil {
		return 0 // never: this package's keeper wrote it
	}
	return time.Duration(ms) * time.Millisecond
}

// replies returns the verdicts as the replies of one server.
func (d *round) replies() []wire.KeyedReply {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]wire.KeyedReply, len(d.mu.tallies))
	for i := range d.mu.tallies {
		switch d.mu.tallies[i].verdict() {
		case carried:
			all[i].Value = alive
		case failed:
			all[i].Value = gone
		case open:
			all[i].Value = undecided
		}
	}
	return all
}
