// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
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

// RunByKey implements hold.BatchRunner. It returns when every hold is decided, or all servers have replied, or
// ctx ends. Servers that have not replied by then continue until ctx would have ended: their holds
// have to be renewed, too.
func (r quorumRunner) RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply {
	tallies := newBatchTally(len(r.members), len(batch.Keys))
	replies := make(chan []wire.KeyedReply, len(r.members)) // the replies of one server each
	for _, m := range r.members {
		r.late.Go(func() {
			patience, cancel := r.patience(ctx)
			defer cancel()
			replies <- m.Runner.RunByKey(patience, forMember(m, batch))
		})
	}
	for range r.members {
		select {
		case reply := <-replies:
			tallies.add(reply)
			if tallies.undecided == 0 {
				return tallies.replies()
			}
		case <-ctx.Done():
			return tallies.replies()
		}
	}
	return tallies.replies()
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
	batch.PerKey = slices.Clone(batch.PerKey)
	for i := 0; i < len(batch.PerKey); i += 2 {
		batch.PerKey[i] = m.ID() + batch.PerKey[i]
	}
	return batch
}

// batchTally counts what the servers say of each hold.
type batchTally struct {
	tallies   []tally // a tally for each key
	undecided int
}

func newBatchTally(members, keys int) *batchTally {
	t := &batchTally{tallies: make([]tally, keys), undecided: keys}
	for i := range t.tallies {
		t.tallies[i].n = members
	}
	return t
}

// add counts the reply of one server. An error is no reply, and neither is a refusal.
func (t *batchTally) add(replies []wire.KeyedReply) {
	for i, s := range replies {
		if s.Err == nil && s.Value >= 0 && t.tallies[i].add(s.Value == alive) {
			t.undecided--
		}
	}
}

// replies returns the verdicts as the replies of one server.
func (t *batchTally) replies() []wire.KeyedReply {
	all := make([]wire.KeyedReply, len(t.tallies))
	for i, count := range t.tallies {
		switch count.verdict() {
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
