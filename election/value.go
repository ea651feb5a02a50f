// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// The value of a term.
//
// The value has a key of its own, beside the holder key. Four rules keep it true:
//
//  1. Only the hold that leads writes it: the script compares the holder key (COMPARE). So a leader
//     whose lease ended cannot write, however late its request arrives.
//  2. The values of a term have numbers that rise, and the script keeps the greatest (NUMBER). So a
//     request that was late or sent twice overwrites no later value of its own term.
//  3. The key names the hold that wrote it, and a reader takes the value only for that hold (MATCH).
//     So a new term has no old value, even if that value was not removed.
//  4. A term that is over removes its own value only (OWN). So a late removal spares the next term's.
//
// value.pml checks them. The key is kept for three leases, and written again once in each lease,
// so it outlasts an outage that the lease outlasts, and comes back if it was lost.

// keepFor is for how many leases the value is kept.
const keepFor = 3

// writePause is the pause before a write that failed in the background is repeated.
const writePause = time.Second

// writePatience is how long a batch of writes waits for its replies.
const writePatience = time.Second

func (t *term) putCall(value string, number uint64) wire.Call {
	e := t.election
	return wire.Call{
		Script: proto.ElectionPutScript,
		Keys:   []string{e.keys.holder, e.keys.leader},
		Args: proto.ElectionPut{
			ID: t.hold, Number: fmt.Sprintf("%016d", number), Text: value, KeepMS: wire.Milliseconds(keepFor * e.base.Terms.Lease),
			Verb: e.base.Session.PublishCommand(), Channel: e.keys.changed,
		}.AppendTo(nil),
	}
}

// written returns what the reply to putCall says, and ends the term if its hold is gone.
func (t *term) written(reply wire.Reply) error {
	switch reply.Code() {
	case wire.Done:
		return nil
	case wire.NotDone:
		t.lose()
		return t.err()
	default:
		return foreign()
	}
}

func foreign() error { return fmt.Errorf("%w: the key is not an election's", errs.ErrWrongKind) }

// setValue writes a value until that is confirmed, or the term or ctx ends.
func (t *term) setValue(ctx context.Context, value string) error {
	base := &t.election.base
	if err := base.CheckContext(ctx); err != nil {
		return err
	}
	if err := session.CheckValue(value, MaxValue); err != nil {
		return err
	}
	if err := t.writable(ctx); err != nil {
		return err
	}
	base.Session.HandshakeInCluster(ctx, t.election.keys.leader)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	both := t.bind(ctx)
	call := t.putCall(value, t.assignNumber(value))
	var last error // why the last try failed
	for fails := 0; ; fails++ {
		reply, err := base.Session.Runner.Run(both, call)
		if err == nil {
			return t.written(reply)
		}
		if over := t.writable(ctx); over != nil {
			return errs.Join(over, last) // cut short: what was known before still is
		}
		if wire.Judge(err) == wire.Final {
			return err
		}
		last = err
		base.Session.BackOff(both, fails, nil)
		if over := t.writable(ctx); over != nil {
			return errs.Join(over, last)
		}
	}
}

// writable returns why the value cannot be written any more, or nil.
func (t *term) writable(ctx context.Context) error {
	if err := t.err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	return nil
}

// assignNumber makes value that of the term, and returns its number. From here on the background writes it
// as well.
func (t *term) assignNumber(value string) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.value = value
	t.mu.number++
	return t.mu.number
}

// writeAll writes the values of terms that begin, or whose values have not been written for a lease.
func (r *electionRegistry) writeAll(terms []*term) {
	ctx, cancel := errs.WithTimeout(r.Context(), writePatience)
	defer cancel()
	calls := make([]wire.Call, 0, len(terms))
	live := terms[:0]
	for _, t := range terms {
		if t.err() != nil {
			continue
		}
		t.election.base.Session.HandshakeInCluster(ctx, t.election.keys.leader)
		t.mu.Lock()
		value, number := t.mu.value, t.mu.number
		t.mu.Unlock()
		live, calls = append(live, t), append(calls, t.putCall(value, number))
	}
	for i, outcome := range r.session.Runner.RunMany(ctx, calls) {
		if outcome.Err == nil {
			if t := live[i]; t.written(outcome.Reply) == nil && !r.session.Forces.ReceivesRecalls(timers.Now()) && t.wasWritten.Swap(true) {
				r.questions.Put(t) // no message says that it is asked to hand over
			}
			continue
		}
		live[i].writeAgain()
	}
}

// writeAgain schedules a write after one that failed.
func (t *term) writeAgain() {
	now := timers.Mono()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.due = now + writePause
	t.scheduleLocked(now)
}

// clear removes the value of a term whose lease was released, and notifies observers. Nothing waits for it but
// this: if it fails, observers poll, and the key ends by itself.
func (t *term) clear() {
	e := t.election
	patience := e.base.Session.Patient(writePatience)
	defer patience.End()
	_, _ = e.base.Session.Runner.Run(patience, wire.Call{
		Script: proto.ElectionClearScript,
		Keys:   []string{e.keys.leader},
		Args:   proto.ElectionClear{ID: t.hold, Verb: e.base.Session.PublishCommand(), Channel: e.keys.changed}.AppendTo(nil),
	})
}
