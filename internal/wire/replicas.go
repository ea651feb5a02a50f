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
	ask := func(command rueidis.Completed) []rueidis.RedisResult {
		ctx, cancel := errs.WithTimeout(ctx, wait+silence)
		defer cancel()
		question := r.client.B().Wait().Numreplicas(int64(count)).Timeout(wait.Milliseconds()).Build()
		return r.doTogether(undated(ctx), command, question)
	}
	var results []rueidis.RedisResult
	if _, sent := r.texts.LoadOrStore(call.Script, struct{}{}); sent {
		results = ask(r.byDigest(call))
	}
	if results == nil || noScript(results[0]) {
		results = ask(r.byText(call))
	}
	script.Reply, script.Err = NewReply(results[0])
	replicated.Reply, replicated.Err = NewReply(results[1])
	return script, replicated
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
