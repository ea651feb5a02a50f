// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Integer reads a number out of a reply, whether it came as a number or as text.
func Integer(tb testing.TB, reply any) int64 {
	tb.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(reply), 10, 64)
	require.NoError(tb, err)
	return n
}

// Count runs a command that returns a number, such as ZCARD.
func Count(tb testing.TB, server *redistest.Server, command ...any) int {
	tb.Helper()
	return int(Integer(tb, server.MustDo(tb, command...)))
}

// ServerTime returns the time of the server's clock.
func ServerTime(tb testing.TB, server *redistest.Server) time.Time {
	tb.Helper()
	parts, _ := server.MustDo(tb, "TIME").([]any)
	require.Len(tb, parts, 2)
	return time.Unix(Integer(tb, parts[0]), 1000*Integer(tb, parts[1]))
}

// Listeners returns how many connections subscribe to a channel.
func Listeners(tb testing.TB, server *redistest.Server, channel string) int {
	tb.Helper()
	reply, _ := server.MustDo(tb, "PUBSUB", "NUMSUB", channel).([]any)
	require.Len(tb, reply, 2)
	return int(Integer(tb, reply[1]))
}

// RequireEnds fails the test if there is a key that never expires.
func RequireEnds(tb testing.TB, server *redistest.Server) {
	tb.Helper()
	for _, key := range server.Keys("*") {
		require.Positive(tb, server.MustDo(tb, "PTTL", key), "%s never expires", key)
	}
}

// ClientAs returns a client of another user.
func ClientAs(tb testing.TB, server *redistest.Server, user, password string) rueidis.Client {
	tb.Helper()
	return server.Client(tb, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = user, password
	})
}
