// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replies passes what a server sent to a pending that has the requests, numbered from 1. It returns what
// each frame was recognised as: the number of its request, "message", "push", or 0 for a further
// confirmation.
func replies(t *testing.T, requests []string, sent ...string) []any {
	t.Helper()
	var p pendingRequests
	for i, r := range requests {
		p.add(strings.Fields(r), countedRequest{number: i + 1})
	}
	var got []any
	r := bufio.NewReader(strings.NewReader(strings.ReplaceAll(strings.Join(sent, ""), " ", "\r\n")))
	for {
		f, err := readFrame(r)
		if err != nil {
			require.Equal(t, io.EOF, err)
			return got
		}
		switch c, s := p.match(f); c {
		case messageFrame:
			got = append(got, "message")
		case pushFrame:
			got = append(got, "push")
		case replyFrame:
			got = append(got, s.number)
		}
	}
}

func TestRepliesBelongToRequestsInOrder(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, 2, 3},
		replies(t, []string{"GET k", "LRANGE l 0 -1", "EVAL s 0"}, "+OK ", "*3 +message +c +x ", "-ERR "))
}

func TestPushesOfRESP3AreNoReplies(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, "message", "push", 2, "message", 3},
		replies(t, []string{"SUBSCRIBE c", "EVAL s 0", "LRANGE l 0 -1"},
			">3 +subscribe +c :1 ", ">3 +message +c +x ", ">2 +invalidate _ ", ":1 ", ">4 +pmessage +* +c +x ",
			"*3 +message +c +x "))
}

func TestMessagesOfRESP2AreNoReplies(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, 2, "message", 3, "message", 4},
		replies(t, []string{"LRANGE l 0 -1", "SUBSCRIBE c", "PING", "UNSUBSCRIBE c"},
			"*3 +message +c +x ", "*3 +subscribe +c :1 ", "*3 +message +c +x ", "*2 +pong + ", "*3 +message +c +y ",
			"*3 +unsubscribe +c :0 "))
}

func TestEachChannelIsConfirmedOnItsOwn(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, "message", 0, 2},
		replies(t, []string{"SSUBSCRIBE a b", "EVAL s 0"},
			">3 +ssubscribe +a :1 ", ">3 +smessage +a +x ", ">3 +ssubscribe +b :2 ", ":1 "))
}

func TestUnsubscribingFromAllIsConfirmedForEachChannel(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, 0, 2, 0, 3, 4},
		replies(t, []string{"SUBSCRIBE a b", "UNSUBSCRIBE", "UNSUBSCRIBE", "EVAL s 0"},
			">3 +subscribe +a :1 ", ">3 +subscribe +b :2 ", ">3 +unsubscribe +a :1 ", ">3 +unsubscribe +b :0 ",
			">3 +unsubscribe _ :0 ", ":1 "))
}

func TestRefusedSubscriptionGetsTheError(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, 2}, replies(t, []string{"SUBSCRIBE a", "EVAL s 0"}, "-NOPERM ", ":1 "))
}

func TestUnsubscriptionByTheServerIsNoReply(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{1, "push", 2},
		replies(t, []string{"SSUBSCRIBE a", "EVAL s 0"}, ">3 +ssubscribe +a :1 ", ">3 +sunsubscribe +a :0 ", ":1 "))
}
