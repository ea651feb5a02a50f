// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/scripts"
)

// Call is one script with its keys and arguments. In a cluster all keys are in one slot.
type Call struct {
	Script *scripts.Script
	Keys   []string
	Args   []string
}

// Runner runs scripts through one client.
type Runner struct {
	client rueidis.Client
	door   door     // not in a cluster, where each node has its own
	texts  sync.Map // of *scripts.Script: those that RunReplicated has sent by their text
}

// NewRunner answers a Runner on client. It sends nothing.
func NewRunner(client rueidis.Client) *Runner { return &Runner{client: client} }

// Clustered reports whether keys of different slots need scripts of their own.
func (r *Runner) Clustered() bool { return r.client.Mode() == rueidis.ClientModeCluster }

// slots is how many slots a cluster has. The client keeps a mark of its own above them.
const slots = 1 << 14

// Slot answers the slot of a key, in a cluster or not.
func (r *Runner) Slot(key string) uint16 {
	command := r.client.B().Get().Key(key).Build()
	return command.Slot() % slots
}

// Run sends one script and waits for the answer. One round trip; two when the server had
// to be sent the text.
func (r *Runner) Run(ctx context.Context, call Call) (Reply, error) {
	if err := r.door.knock(); err != nil {
		return Reply{}, errs.OfCall(ctx, err) // with which a call under another context may have ended
	}
	ctx = undated(ctx)
	result := r.client.Do(ctx, r.byDigest(call))
	if noScript(result) {
		result = r.client.Do(ctx, r.byText(call))
	}
	reply, err := NewReply(result)
	if errors.Is(err, errs.ErrClosed) && !r.closed(ctx) {
		err = errLeft
	}
	err = errs.OfCall(ctx, err)
	r.heard(ctx, err)
	return reply, err
}

// heard tells the door what a call was answered. A call that failed after the end of its context says
// nothing of the server.
func (r *Runner) heard(ctx context.Context, err error) {
	if err == nil || ctx.Err() == nil && !r.Clustered() {
		r.door.answered(err)
	}
}

// Outcome is the answer to one call of many.
type Outcome struct {
	Reply Reply
	Err   error
}

// RunMany sends all calls in one pipeline and waits for every answer.
func (r *Runner) RunMany(ctx context.Context, calls []Call) []Outcome {
	if err := r.door.knock(); err != nil {
		outcomes := make([]Outcome, len(calls))
		for i := range outcomes {
			outcomes[i].Err = errs.OfCall(ctx, err)
		}
		return outcomes
	}
	ctx = undated(ctx)
	outcomes := r.runMany(ctx, calls)
	r.leave(ctx, outcomes)
	for i := range outcomes {
		outcomes[i].Err = errs.OfCall(ctx, outcomes[i].Err)
	}
	return outcomes
}

func (r *Runner) runMany(ctx context.Context, calls []Call) []Outcome {
	outcomes := make([]Outcome, len(calls))
	commands := make([]rueidis.Completed, len(calls))
	for i, call := range calls {
		commands[i] = r.byDigest(call)
	}
	var unknown []int // the calls whose script the server did not know
	for i, result := range r.client.DoMulti(ctx, commands...) {
		if noScript(result) {
			unknown = append(unknown, i)
			continue
		}
		outcomes[i].Reply, outcomes[i].Err = NewReply(result)
	}
	if len(calls) > 0 {
		r.heard(ctx, outcomes[0].Err) // one connection has served all, or none
	}
	if len(unknown) == 0 {
		return outcomes
	}
	commands = commands[:0]
	for _, i := range unknown {
		commands = append(commands, r.byText(calls[i]))
	}
	for n, result := range r.client.DoMulti(ctx, commands...) {
		i := unknown[n]
		outcomes[i].Reply, outcomes[i].Err = NewReply(result)
	}
	return outcomes
}

func (r *Runner) byDigest(call Call) rueidis.Completed {
	return r.client.B().Evalsha().Sha1(call.Script.SHA1).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func (r *Runner) byText(call Call) rueidis.Completed {
	return r.client.B().Eval().Script(call.Script.Source).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func noScript(result rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(result.Error())
	return ok && refusal.IsNoScript()
}

// undatedContext hides the deadline of a context and keeps its end. Shown a deadline, the
// client arms the connection with it and does not look at the context before it is over.
type undatedContext struct{ context.Context } //nolint:containedctx // a context that wraps one

// Deadline implements context.Context.
func (undatedContext) Deadline() (time.Time, bool) { return time.Time{}, false }

func undated(ctx context.Context) context.Context {
	if _, dated := ctx.Deadline(); !dated {
		return ctx
	}
	return undatedContext{ctx}
}
