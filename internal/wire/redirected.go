// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

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

// suspicion says how likely a refusal comes from the wrong server. A server that was demoted keeps its connections, and an
// address that led to it, such as a name, a Service or a balancer, may lead to another server by now. Only a new connection
// finds out.
type suspicion int

const (
	// unsuspicious means that the refusal says nothing against the server.
	unsuspicious suspicion = iota
	// suspectServer means that the server is the wrong one if it refuses for some seconds: a primary that its replicas have left,
	// or one that restarts after another has taken over.
	suspectServer
	// wrongServer means that the client must connect to another server.
	wrongServer
)

// suspectFor is how long refusals last before a connection is left for them; suspectGap is the greatest
// time between two refusals that count as one series.
const suspectFor, suspectGap = 3 * time.Second, 10 * time.Second

// suspiciousCodes are the words that raise suspicion, wherever they stand in a refusal and in any case: a proxy or a script may
// repeat them.
//
//nolint:gochecknoglobals // a constant table
var suspiciousCodes = map[string]suspicion{
	"READONLY": wrongServer, "MASTERDOWN": wrongServer,
	"NOREPLICAS": suspectServer, "LOADING": suspectServer, "CLUSTERDOWN": suspectServer, "NOMASTERLINK": suspectServer,
}

// wrongServerPhrases are the refusals of servers that send no code, in lower case.
//
//nolint:gochecknoglobals // a constant table
var wrongServerPhrases = []string{"read only replica", "read-only replica", "read only slave", "instance state changed (master -> replica"}

// suspicionOf returns the suspicion that a refusal raises. Refusals that repeat a part of the request raise none.
func suspicionOf(words string) suspicion {
	upper := strings.ToUpper(words)
	for _, repeats := range []string{"NOPERM", "ERR UNKNOWN ", "WRONGPASS", "ERR WRONG NUMBER"} {
		if strings.HasPrefix(upper, repeats) {
			return unsuspicious
		}
	}
	most := unsuspicious
	for word := range strings.FieldsFuncSeq(upper, func(r rune) bool { return !unicode.IsLetter(r) }) {
		most = max(most, suspiciousCodes[word])
	}
	lower := strings.ToLower(words)
	for _, phrase := range wrongServerPhrases {
		if strings.Contains(lower, phrase) {
			return wrongServer
		}
	}
	return most
}

// movedTo returns the address in a redirection, or "".
func movedTo(words string) string {
	fields := strings.Fields(words)
	for i, field := range fields {
		if strings.EqualFold(strings.TrimPrefix(field, "-"), "MOVED") && i+2 < len(fields) {
			return fields[i+2]
		}
	}
	return ""
}

// isBrokenRedirection reports whether a refusal begins as a redirection and names no address. The client panics at it.
func isBrokenRedirection(words string) bool {
	return (strings.HasPrefix(words, "MOVED") || strings.HasPrefix(words, "ASK")) && strings.Count(words, " ") < 2
}
