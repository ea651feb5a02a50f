// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// electorate is the servers of a group, to which renewals go as if to one. For each hold it returns what a
// quorum says: that the hold exists, or that it is gone. The deadline of a term counts from before the
// renewal was sent to the first server, so it is before the end of each key of that quorum.
type quorumRunner struct{ *sessionGroup }

// The numbers that holder/renew returns, by hold.
const (
	gone      int64 = 0
	alive     int64 = 1
	undecided int64 = -1
)

// returns is the reply of one server.
type memberReplies struct {
	member  int
	replies []wire.KeyedReply
}

// RunByKey implements renewal.Server. It returns when every hold is decided, or all servers have replied, or
// ctx ends. Servers that have not replied by then continue until ctx would have ended: their part of a hold
// has to be renewed, too.
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

// patience returns a context that ends when ctx would by itself, or the group closes.
func (e quorumRunner) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, dated := ctx.Deadline()
	if !dated {
		deadline = time.Now().Add(time.Second)
	}
	return context.WithDeadline(e.ctx, deadline)
}

// named returns the batch as one member takes it: the holds that terms name by their attempt begin with its id.
func forMember(m *session.Session, batch wire.KeyedCall) wire.KeyedCall {
	batch.PerKey = slices.Clone(batch.PerKey)
	for i := 0; i < len(batch.PerKey); i += 2 {
		batch.PerKey[i] = m.ID() + batch.PerKey[i]
	}
	return batch
}

// count counts what the servers say of each hold.
type batchTally struct {
	tallies   []tally // by key
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

// said returns what the count comes to, as one server would say it.
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
