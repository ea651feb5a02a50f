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

// memberReplies is the reply of one server.
type memberReplies struct {
	member  int
	replies []wire.KeyedReply
}

// RunByKey implements renewal.BatchRunner. It returns when every hold is decided, or all servers have replied, or
// ctx ends. Servers that have not replied by then continue until ctx would have ended: their holds
// have to be renewed, too.
func (e quorumRunner) RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply {
	tallies := newBatchTally(len(e.members), len(batch.Keys))
	replies := make(chan memberReplies, len(e.members))
	for i, m := range e.members {
		e.late.Go(func() {
			patience, cancel := e.patience(ctx)
			defer cancel()
			replies <- memberReplies{i, m.Runner.RunByKey(patience, forMember(m, batch))}
		})
	}
	for range e.members {
		select {
		case r := <-replies:
			tallies.add(r.replies)
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
func (e quorumRunner) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, dated := ctx.Deadline()
	if !dated {
		deadline = time.Now().Add(time.Second)
	}
	return context.WithDeadline(e.ctx, deadline)
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
	c := &batchTally{tallies: make([]tally, keys), undecided: keys}
	for i := range c.tallies {
		c.tallies[i].n = members
	}
	return c
}

// add counts the reply of one server. An error is no reply, and neither is a refusal.
func (c *batchTally) add(replies []wire.KeyedReply) {
	for i, s := range replies {
		if s.Err == nil && s.Value >= 0 && c.tallies[i].add(s.Value == alive) {
			c.undecided--
		}
	}
}

// replies returns the verdicts as the replies of one server.
func (c *batchTally) replies() []wire.KeyedReply {
	all := make([]wire.KeyedReply, len(c.tallies))
	for i, t := range c.tallies {
		switch t.verdict() {
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
