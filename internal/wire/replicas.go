// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// silence is how long the answer to a wait for replicas may be overdue. The client sets no limit of
// its own to what may block.
const silence = 3 * time.Second

// RunReplicated sends one script and, behind it on the same connection, the question how many replicas
// have all that was written until then, which the server answers when count of them have it or wait is
// over. On another connection the question would be about something else. replicated is that
// answer: a number.
//
// One round trip, on a connection that nobody else uses meanwhile. The question has its time also
// where the script wrote nothing; the first call of a script therefore goes by its text, so
// that none is spent on hearing that the server does not know it.
func (r *Runner) RunReplicated(ctx context.Context, call Call, count int, wait time.Duration) (script, replicated Outcome) {
	both := aside(ctx, &r.asides, func() (both answeredTwice) { // always: the connection may have to be made
		_, sent := r.texts.LoadOrStore(call.Script, struct{}{})
		if sent {
			both = r.askReplicas(ctx, r.byDigest(call), count, wait)
		}
		if !sent || both.noScript {
			both = r.askReplicas(ctx, r.byText(call), count, wait)
		}
		return both
	}, func(err error) answeredTwice {
		unanswered := Outcome{Err: errs.OfCall(ctx, err)}
		return answeredTwice{script: unanswered, replicated: unanswered}
	})
	return both.script, both.replicated
}

// answeredTwice has the replies to a script and to the WAIT behind it.
type answeredTwice struct {
	script, replicated Outcome
	noScript           bool
}

func (r *Runner) askReplicas(ctx context.Context, command rueidis.Completed, count int, wait time.Duration) (both answeredTwice) {
	ctx, cancel := errs.WithTimeout(ctx, wait+silence)
	defer cancel()
	question := r.client.B().Wait().Numreplicas(int64(count)).Timeout(wait.Milliseconds()).Build()
	results := r.doTogether(undated(ctx), command, question)
	both.noScript = noScript(results[0])
	both.script.Reply, both.script.Err = NewReply(results[0])
	both.replicated.Reply, both.replicated.Err = NewReply(results[1])
	both.script.Err, both.replicated.Err = errs.OfCall(ctx, both.script.Err), errs.OfCall(ctx, both.replicated.Err)
	return both
}

// doTogether sends commands, the last of which blocks, over one connection.
func (r *Runner) doTogether(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if !r.Clustered() {
		return r.client.DoMulti(ctx, commands...) // which takes a connection of its own where something blocks
	}
	// The client of a cluster would follow a redirection of the script alone, and ask the node that
	// redirected how many replicas have it. A dedicated one follows none.
	client, release := r.client.Dedicate()
	defer release()
	results := client.DoMulti(ctx, commands...)
	for _, result := range results {
		if result.NonRedisError() != nil {
			client.Close() // not back into the pool: something may be on its way in it
			break
		}
	}
	return results
}
