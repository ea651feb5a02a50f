// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// waitTimeout is how long the reply to a wait for replicas may be overdue. The client sets no limit of its own
// for commands that may block.
const waitTimeout = 3 * time.Second

// RunReplicated sends one script, followed by WAIT on the same connection: how many replicas have all earlier
// writes. The server replies when count of them have, or when wait is over. replicated is that reply: a number.
//
// WAIT counts the replicas that have the last write of its own connection. The script may write nothing: a
// renewal of a hold that another connection granted, and that lasts long enough. WAIT would then count replicas
// that lack the hold. So session/rewrite, which always writes, is sent between the two. If the key is gone, no
// replica counts.
//
// It is one round trip, on a connection that no other call uses meanwhile. The server executes WAIT even if it
// does not know the digest of a script. So the first call of a script sends the texts, instead of learning that
// from a full wait.
func (r *Runner) RunReplicated(ctx context.Context, call Call, count int, wait time.Duration) (script, replicated Outcome) {
	began := timers.Mono()
	both := detach(ctx, &r.detached, func() (both replicatedOutcome) { // always: the connection may have to be made
		_, sent := r.replicatedTexts.LoadOrStore(call.Script, struct{}{})
		if sent {
			both = r.sendReplicated(ctx, r.byDigest, call, count, wait)
		}
		if !sent || both.noScript {
			both = r.sendReplicated(ctx, r.byText, call, count, wait)
		}
		for again := 0; again < resends && errors.Is(both.script.Err, errUnsent); again++ {
			both = r.sendReplicated(ctx, r.byText, call, count, wait)
		}
		return both
	}, func(err error) replicatedOutcome {
		noReply := Outcome{Err: errs.OfCall(ctx, err)}
		return replicatedOutcome{script: noReply, replicated: noReply}
	})
	both.script.Err = r.notifyWatcher(ctx, call.digest(), call.Keys, began, r.judgeRedirection(ctx, r.rights.outcome(&call, both.script.Err)))
	return both.script, both.replicated
}

// replicatedOutcome is the outcome of a script, and the reply to WAIT: how many replicas have its writes.
type replicatedOutcome struct {
	script, replicated Outcome
	noScript           bool
}

func (r *Runner) sendReplicated(
	ctx context.Context, built func(Call) rueidis.Completed, call Call, count int, wait time.Duration,
) (both replicatedOutcome) {
	ctx, cancel := errs.WithTimeout(ctx, wait+waitTimeout)
	defer cancel()
	rewrite := built(Call{Script: RewriteScript, Keys: call.Keys[:1]})
	waitCommand := r.client.B().Wait().Numreplicas(int64(count)).Timeout(wait.Milliseconds()).Build()
	results := r.doTogether(withoutDeadline(ctx), built(call), rewrite, waitCommand)
	both.noScript = noScript(results[0]) || noScript(results[1])
	both.script.Reply, both.script.Err = ofScript(results[0])
	both.replicated.Reply, both.replicated.Err = ofScript(results[1])
	if both.replicated.Err == nil && both.replicated.Reply.Code() == Done { // otherwise the 0 stands
		both.replicated.Reply, both.replicated.Err = NewReply(results[2])
	}
	both.script.Err, both.replicated.Err = errs.OfCall(ctx, both.script.Err), errs.OfCall(ctx, both.replicated.Err)
	return both
}

// doTogether sends commands, the last of which blocks, over one connection.
func (r *Runner) doTogether(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if !r.Clustered() {
		return r.client.DoMulti(ctx, commands...) // which uses a connection of its own if a command blocks
	}
	// The client of a cluster would follow a redirection of the script alone, and ask the node that
	// redirected how many replicas have it. A dedicated one follows none.
	client, release := r.client.Dedicate()
	defer release()
	results := client.DoMulti(ctx, commands...)
	for _, result := range results {
		if result.Error() != nil {
			// Not back into the pool. Something may be on its way in it; and the client cleans up with a PING, and panics if the
			// server refuses that too.
			client.Close()
			break
		}
	}
	return results
}
