// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Tuned makes a client tuned, and quick to give up a silent connection: such a connection costs a test one second
// instead of two.
func Tuned(o *rueidis.ClientOption) {
	o.ConnWriteTimeout = time.Second
	signalbox.Tune(o)
}

// Steady makes a client for tests without faults: it tolerates a server that is silent for as long as a test does.
func Steady(o *rueidis.ClientOption) {
	o.ConnWriteTimeout, o.Dialer.Timeout = redistest.Patience, redistest.Patience
	signalbox.Tune(o)
}

// Session returns a session to the server or the proxy. Its Unlock waits longer than by default, for a busy machine. The
// session is closed when the test ends, without a grace: that ends leases that are left.
func Session(tb testing.TB, to redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return SessionOf(tb, to.Client(tb, Tuned), options...)
}

// SessionOf is Session with a client that the test has made.
//
// Its leases have their whole length from the start, unless the test sets their first length. By default that is 3 s, and a
// busy machine can keep a process from renewing for longer: it did, with the race detector and 18 programs that
// wanted two processors.
func SessionOf(tb testing.TB, client rueidis.Client, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	whole := signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour))
	s := signalbox.NewSession(client, append([]signalbox.SessionOption{whole}, options...)...)
	(*session.Handle)(s).Session().UnlockPatience = redistest.Patience
	tb.Cleanup(func() {
		_ = s.Close(Ended()) // says that leases were left, which the test knows
	})
	return s
}

// LearnSlots makes the session find out whether one script may have keys of several slots. Otherwise its first call for several
// locks does so.
func LearnSlots(s *signalbox.Session) bool {
	return (*session.Handle)(s).Session().Runner.Span.CertainlySpansSlots(context.Background())
}

// Undoing returns how many calls of unknown outcome the session is still undoing in the background.
func Undoing(s *signalbox.Session) int { return (*session.Handle)(s).Session().Undoer.Pending() }

// Channels returns how many channels the session listens to.
func Channels(s *signalbox.Session) int { return (*session.Handle)(s).Session().Dispatch.Channels() }

// IgnoreUnconfirmed ignores the error of an Unlock without a reply in time. Even without a fault that happens on a busy machine, and
// the release is repeated in the background.
func IgnoreUnconfirmed(err error) error {
	if errors.Is(err, signalbox.ErrUnconfirmed) {
		return nil
	}
	return err
}

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

// StartReplica starts a replica of a server, and returns when it has all that the server has.
func StartReplica(tb testing.TB, primary *redistest.Server) *redistest.Server {
	tb.Helper()
	primary.MustDo(tb, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.Start(tb)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(tb, err)
	replica.MustDo(tb, "REPLICAOF", host, port)
	redistest.Await(tb, "the link to the replica", func() bool {
		info, _ := replica.MustDo(tb, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	redistest.Await(tb, "a replica that has everything", func() bool {
		return Integer(tb, primary.MustDo(tb, "WAIT", 1, 100)) == 1
	})
	return replica
}

// SteadySession is Session for tests without faults: its client tolerates a server that is
// silent for as long as a test does, so a busy machine breaks no connection.
func SteadySession(tb testing.TB, to redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return SessionOf(tb, to.Client(tb, Steady), options...)
}
