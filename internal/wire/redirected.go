// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// A client that was made for one server follows no redirection. What a MOVED means for it depends on who says it.
//
//   - A primary of a cluster: other nodes serve other slots, and this client never reaches them. The call can never succeed.
//   - A replica of a cluster, such as the former primary of a cluster with one shard: the address leads elsewhere, or soon will.
//   - Anything else, such as a proxy that hands a MOVED on while slots move: it passes.
//
// HELLO says which it is. Every user may send it, and the server is asked after the MOVED, since what stands behind an address
// may change.

// redirections lists the codes of redirections.
//
//nolint:gochecknoglobals // a constant table
var redirections = []string{"MOVED", "ASK"}

// checkedFor is how long the reply to that question holds for other calls, so that a thousand redirections make one question.
const checkedFor = time.Second

// clusterCheck is the last reply to the question whether the server is a primary of a cluster. The zero value is of no reply yet.
type clusterCheck struct{ last atomic.Pointer[clusterReply] }

type clusterReply struct {
	at      time.Duration // when the question was sent, on the monotonic clock
	primary bool
}

// judgeRedirection returns the error of a call, which is ErrUnsupported and final if no call of this client can have its key.
func (r *Runner) judgeRedirection(ctx context.Context, err error) error {
	if err == nil || r.Clustered() || !begins(wordsOf(err), redirections) || !r.isClusterPrimary(ctx) {
		return err
	}
	return &judgedError{fmt.Errorf("%w: the server is a node of a cluster, and the client was made for one server; make a client of the cluster, "+
		"as Dial of host:port does without ForceSingleClient: %s", errs.ErrUnsupported, wordsOf(err)), Final}
}

// isClusterPrimary asks the server whether it is a primary of a cluster. Without a reply it returns false.
func (r *Runner) isClusterPrimary(ctx context.Context) bool {
	now := timers.Mono()
	if last := r.clusterCheck.last.Load(); last != nil && now-last.at < checkedFor {
		return last.primary
	}
	said, err := r.sendHello(ctx) // within the time of the call
	if err != nil && !IsReplyError(err) {
		return false // the next call asks again
	}
	is := func(field, value string) bool {
		message := said[field]
		text, err := message.ToString()
		return err == nil && strings.EqualFold(text, value)
	}
	primary := err == nil && is("mode", "cluster") && is("role", "master")
	r.clusterCheck.last.Store(&clusterReply{now, primary})
	return primary
}

// sendHello sends HELLO. The redirection may just have ended the connection, which is no reply to this.
func (r *Runner) sendHello(ctx context.Context) (said map[string]rueidis.RedisMessage, err error) {
	for range resends {
		said, err = r.client.Do(ctx, r.client.B().Arbitrary("HELLO").Build()).AsMap()
		if err == nil || IsReplyError(err) || ctx.Err() != nil {
			break
		}
	}
	return said, err
}
