// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

// Call is one script with its keys and arguments. The keys are in one slot, unless scripts may span slots.
type Call struct {
	Script *scripts.Script
	// Command is sent as it is if there is no Script, the keys before the arguments. Only RunMany sends it. The
	// client repeats it no more than it repeats a script.
	Command string
	Keys    []string
	Args    []string
}

// Runner runs scripts through one client.
type Runner struct {
	client     rueidis.Client
	late       *LateClient // the client that client is; nil if there was one from the start
	breaker    breaker     // records no failures in a cluster, where nodes refuse connections separately
	connEpochs []connEpoch
	detached   detachedCalls
	rights     rights

	watcher Watcher // may be nil

	replicatedTexts sync.Map // a set of each *scripts.Script whose text RunReplicated has sent
	// Span finds out whether scripts may have keys of several slots.
	Span         slotSpan
	clusterCheck clusterCheck

	paces sync.Map // a *Pace for each node: see Pace

	inFlight textsInFlight // the texts that Run sends
}

// NewRunner returns a Runner on client. It sends nothing.
func NewRunner(client rueidis.Client) *Runner {
	r := &Runner{client: client, late: lateClientOf(client), breaker: breaker{client: client}}
	r.learnMode(client)
	if r.late != nil {
		r.late.runner = r
	}
	r.Span.init(r)
	return r
}

// learnMode prepares r for the nodes of a client.
func (r *Runner) learnMode(client rueidis.Client) {
	r.connEpochs = make([]connEpoch, 1)
	if client.Mode() == rueidis.ClientModeCluster {
		r.connEpochs = make([]connEpoch, slots) // each node has connections of its own
	}
}

// IsConnected reports whether there is a client: Clustered is known then, and stays as it is.
func (r *Runner) IsConnected() bool { return r.late == nil || r.late.isConnected() }

// Connect returns why there is no client yet, or nil. It joins the attempt to connect that is under way, or begins one, unless one has
// failed just now. Run and RunMany call it. A call whose keys or arguments depend on Clustered calls it before it makes them.
func (r *Runner) Connect(ctx context.Context) error {
	if r.IsConnected() {
		return nil
	}
	return errs.OfCall(ctx, r.late.call(ctx))
}

// Refuse ends Connect, and what waits for the first connection, with errs.ErrClosed. It changes nothing once there is a client.
func (r *Runner) Refuse() {
	if r.late != nil {
		r.late.refuse()
	}
}

// slots is how many slots a cluster has. The client keeps a value of its own above them.
const slots = Slots

// Slot returns the slot of a key, in a cluster or not.
func (r *Runner) Slot(key string) uint16 { return Slot(key) }

// Run sends one script and waits for the reply. It is one round trip; two if the server had to be sent the
// text. It does not keep the slices of call.
func (r *Runner) Run(ctx context.Context, call Call) (reply Reply, err error) {
	if err = r.Connect(ctx); err != nil {
		return Reply{}, err
	}
	began := timers.Mono()
	if err = r.breaker.allow(); err != nil {
		return Reply{}, r.notifyWatcher(ctx, call.digest(), call.Keys, began, errs.OfCall(ctx, err)) // the call that caused err may have had another context
	}
	ctx = withoutDeadline(ctx)
	for again := 0; ; again++ {
		command, epoch := r.byDigest(call), closedConns.Load()+1
		last := r.connEpochOf(command)
		if ctx.Done() == nil || last.Load() == epoch {
			reply, err = r.run(ctx, command, call)
		} else {
			reply, err = r.runDetached(ctx, command, call)
		}
		recordConnected(last, epoch, err)
		if err = r.rights.outcome(&call, err); again == resends || !errors.Is(err, errUnsent) {
			break
		}
	}
	r.recordOutcome(ctx, began, err)
	err = r.judgeRedirection(ctx, err)
	return reply, r.notifyWatcher(ctx, call.digest(), call.Keys, began, err)
}

// resends is how often a call is sent again that was not sent because its connection was given up. Each time there
// is a new connection, so the second time is rare.
const resends = 3

// runDetached runs a call detached from its caller. It works on copies, since the call may outlive its caller: so the
// arguments of all other calls can be on the stack.
func (r *Runner) runDetached(ctx context.Context, command rueidis.Completed, call Call) (Reply, error) {
	script := *call.Script
	kept := Call{Script: &script, Keys: slices.Clone(call.Keys), Args: slices.Clone(call.Args)}
	outcome := detach(ctx, &r.detached, func() (o Outcome) {
		o.Reply, o.Err = r.run(ctx, command, kept)
		return o
	}, func(err error) Outcome {
		return Outcome{Err: errs.OfCall(ctx, err)}
	})
	return outcome.Reply, outcome.Err
}

func (r *Runner) run(ctx context.Context, command rueidis.Completed, call Call) (Reply, error) {
	result := r.client.Do(ctx, command)
	if noScript(result) {
		result = r.sendText(ctx, call)
	}
	reply, err := ofScript(result)
	if errors.Is(err, errs.ErrClosed) && !r.isClosed(ctx) {
		err = errConnClosed
	}
	return reply, errs.OfCall(ctx, err)
}

// recordOutcome reports the result of a call to the breaker. A call that failed after its context ended says nothing
// about the server.
func (r *Runner) recordOutcome(ctx context.Context, began time.Duration, err error) {
	if err == nil || ctx.Err() == nil && !r.Clustered() {
		r.breaker.record(began, err)
	}
}

// Outcome is the reply to one call of many.
type Outcome struct {
	Reply Reply
	Err   error
}

// RunMany sends all calls in one pipeline and waits for every reply.
func (r *Runner) RunMany(ctx context.Context, calls []Call) []Outcome {
	if err := r.Connect(ctx); err != nil {
		return allFailed(len(calls), err)
	}
	began := timers.Mono()
	outcomes := r.runManyUnwatched(ctx, began, calls)
	for i := range outcomes {
		_ = r.notifyWatcher(ctx, calls[i].digest(), calls[i].Keys, began, outcomes[i].Err)
	}
	return outcomes
}

// runManyUnwatched is RunMany for calls whose errors say nothing about the server. The watcher is not notified of them.
func (r *Runner) runManyUnwatched(ctx context.Context, began time.Duration, calls []Call) []Outcome {
	if err := r.breaker.allow(); err != nil {
		return allFailed(len(calls), errs.OfCall(ctx, err))
	}
	ctx = withoutDeadline(ctx)
	outcomes := r.runManyOnce(ctx, calls)
	for range resends {
		var unsent []int
		var left []Call
		for i, outcome := range outcomes {
			if errors.Is(outcome.Err, errUnsent) {
				unsent, left = append(unsent, i), append(left, calls[i])
			}
		}
		if len(left) == 0 {
			break
		}
		for n, outcome := range r.runManyOnce(ctx, left) {
			outcomes[unsent[n]] = outcome
		}
	}
	if len(calls) > 0 {
		r.recordOutcome(ctx, began, outcomes[0].Err) // one connection has served all of them, or none
	}
	for i := range outcomes {
		outcomes[i].Err = r.judgeRedirection(ctx, outcomes[i].Err)
	}
	return outcomes
}

func (r *Runner) runManyOnce(ctx context.Context, calls []Call) []Outcome {
	commands, epoch := make([]rueidis.Completed, len(calls)), closedConns.Load()+1
	for i, call := range calls {
		commands[i] = r.byDigest(call)
	}
	last := make([]*connEpoch, len(calls)) // now: the client reuses commands that have a reply
	for i, command := range commands {
		last[i] = r.connEpochOf(command)
	}
	var outcomes []Outcome
	if ctx.Done() == nil || r.areConnected(commands, epoch) {
		outcomes = r.runMany(ctx, commands, calls)
	} else {
		outcomes = detach(ctx, &r.detached, func() []Outcome {
			return r.runMany(ctx, commands, calls)
		}, func(err error) []Outcome {
			return allFailed(len(calls), errs.OfCall(ctx, err))
		})
	}
	for i := range outcomes {
		recordConnected(last[i], epoch, outcomes[i].Err)
		outcomes[i].Err = r.rights.outcome(&calls[i], outcomes[i].Err)
	}
	return outcomes
}

// allFailed returns the outcomes of n calls that failed with the same error.
func allFailed(n int, err error) []Outcome {
	outcomes := make([]Outcome, n)
	for i := range outcomes {
		outcomes[i].Err = err
	}
	return outcomes
}

func (r *Runner) runMany(ctx context.Context, commands []rueidis.Completed, calls []Call) []Outcome {
	outcomes := r.sendMany(ctx, commands, calls)
	r.replaceClosed(ctx, outcomes)
	for i := range outcomes {
		outcomes[i].Err = errs.OfCall(ctx, outcomes[i].Err)
	}
	return outcomes
}

func (r *Runner) sendMany(ctx context.Context, commands []rueidis.Completed, calls []Call) []Outcome {
	outcomes := make([]Outcome, len(calls))
	var unknown []int // the calls whose script the server did not know
	for i, result := range r.client.DoMulti(ctx, commands...) {
		switch {
		case calls[i].Script == nil: // to which NOSCRIPT is an error as any other
			outcomes[i].Reply, outcomes[i].Err = NewReply(result)
			if rueidis.IsRedisNil(outcomes[i].Err) {
				outcomes[i] = Outcome{} // there is nothing; no script says so
			}
		case noScript(result):
			unknown = append(unknown, i)
		default:
			outcomes[i].Reply, outcomes[i].Err = ofScript(result)
		}
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
		outcomes[i].Reply, outcomes[i].Err = ofScript(result)
	}
	return outcomes
}

func (r *Runner) byDigest(call Call) rueidis.Completed {
	if call.Script == nil {
		// A copy: for the compiler Arbitrary keeps what it is given, and then the arguments of every call would be on the heap.
		return r.client.B().Arbitrary(strings.Clone(call.Command)).Keys(call.Keys...).Args(call.Args...).Build()
	}
	return r.client.B().Evalsha().Sha1(call.Script.SHA1).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func (r *Runner) byText(call Call) rueidis.Completed {
	return r.client.B().Eval().Script(call.Script.Source).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func noScript(result rueidis.RedisResult) bool {
	refusal, ok := rueidis.IsRedisErr(result.Error())
	return ok && refusal.IsNoScript()
}

// NoDeadline hides the deadline of a context, which still ends. If the client sees a deadline, it sets it on the connection and
// does not check the context before that. Run hides it by itself. A caller that has room for a NoDeadline saves
// the allocation.
type NoDeadline struct{ context.Context } //nolint:containedctx // a context that wraps one

// Deadline implements context.Context.
func (*NoDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

// Of returns ctx without its deadline. n serves one context, so its callers may keep the result.
func (n *NoDeadline) Of(ctx context.Context) context.Context {
	if _, has := ctx.Deadline(); !has {
		return ctx
	}
	if n.Context != nil {
		return &NoDeadline{ctx}
	}
	n.Context = ctx
	return n
}

func withoutDeadline(ctx context.Context) context.Context {
	if _, has := ctx.Deadline(); !has {
		return ctx
	}
	return &NoDeadline{ctx}
}

// Watcher is notified of the outcome of every call of a script. Its methods are called by many goroutines, and must not block.
// They have the first key of the call, and not the call, whose slices are on its caller's stack.
type Watcher interface {
	// Replied says that the server executed a script.
	Replied(script string, key string)
	// Failed says that a call that began at began, on the monotonic clock, has no reply, or one that is an error. ended says
	// that its caller's context has ended.
	Failed(script string, key string, began time.Duration, err error, ended bool)
}

// Watch makes w the watcher of r. Call it once, before any call.
func (r *Runner) Watch(w Watcher) { r.watcher = w }

// notifyWatcher notifies the watcher of the outcome of a call with these keys, and returns its error. It does not
// take the call, whose arguments would be on the heap then.
func (r *Runner) notifyWatcher(ctx context.Context, script string, keys []string, began time.Duration, err error) error {
	switch {
	case r.watcher == nil || script == "" || len(keys) == 0:
	case err == nil:
		r.watcher.Replied(script, keys[0])
	default:
		r.watcher.Failed(script, keys[0], began, err, ctx.Err() != nil)
	}
	return err
}

// digest returns the digest of the script, or "".
func (c *Call) digest() string {
	if c.Script == nil {
		return ""
	}
	return c.Script.SHA1
}
