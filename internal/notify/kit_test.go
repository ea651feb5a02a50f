// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// waiterID is the session of the dispatchers here.
const waiterID = "0123456789012345678901"

// newDispatcher returns a dispatcher that is closed when the test ends.
func newDispatcher(tb testing.TB, client rueidis.Client, log io.Writer) *notify.Dispatcher {
	tb.Helper()
	return startDispatcher(tb, client, log, false)
}

// newPoller returns a dispatcher that polls.
func newPoller(tb testing.TB, client rueidis.Client) *notify.Dispatcher {
	tb.Helper()
	return startDispatcher(tb, client, io.Discard, true)
}

func startDispatcher(tb testing.TB, client rueidis.Client, log io.Writer, polling bool) *notify.Dispatcher {
	tb.Helper()
	clock := timers.New()
	d := notify.NewDispatcher(client, wire.NewRunner(client), clock, monitor{log}, polling)
	tb.Cleanup(func() {
		d.Close()
		clock.Close()
	})
	return d
}

// tuned returns a client as sessions have it, which gives up a server that is silent.
func tuned(tb testing.TB, address redistest.Dialer) rueidis.Client {
	tb.Helper()
	return address.Client(tb, signalbox.Tune)
}

// steady returns a client that tolerates a server that is silent on a busy machine.
func steady(tb testing.TB, address redistest.Dialer) rueidis.Client {
	tb.Helper()
	return address.Client(tb, locktest.Steady)
}

func targetOf(tb testing.TB, name string) notify.Target {
	tb.Helper()
	set, err := proto.NativeNames(proto.NamingOptions{Prefix: proto.DefaultPrefix}, name)
	require.NoError(tb, err)
	return notify.Target{Channel: set.Unlocked(), Key: set.Holder, Poll: proto.RedlockPollScript, WaiterID: waiterID}
}

// hold makes another process hold the lock of a target for an hour.
func holdKey(tb testing.TB, server *redistest.Server, target notify.Target) {
	tb.Helper()
	server.MustDo(tb, "SET", target.Key, "sb1q"+strings.Repeat("1", 16)+strings.Repeat("h", 41)+strings.Repeat("-", 22), "PX", 3_600_000)
}

// denials returns how often a server said NOPERM.
func denials(tb testing.TB, server *redistest.Server) (n int) {
	tb.Helper()
	stats, _ := server.MustDo(tb, "INFO", "errorstats").(string)
	if _, count, found := strings.Cut(stats, "errorstat_NOPERM:count="); found {
		_, err := fmt.Sscan(count, &n)
		require.NoError(tb, err)
	}
	return n
}

// subscribed registers a waiter, and returns when its channel is subscribed to and it has received the wake-up of
// the confirmation.
func subscribed(tb testing.TB, d *notify.Dispatcher, target notify.Target) *notify.Wait {
	tb.Helper()
	w := d.Wait(target)
	redistest.Receive(tb, "the confirmation", w.C)
	return w
}

// awaitRunning waits until the dispatcher has so many goroutines: that which finds the nodes of channels may end after the
// channels are confirmed.
func awaitRunning(tb testing.TB, d *notify.Dispatcher, n int) {
	tb.Helper()
	redistest.Await(tb, fmt.Sprintf("%d goroutines", n), func() bool { return d.Running() == n })
}

// monitor writes a line for each report.
type monitor struct{ log io.Writer }

func (m monitor) MessagesLost(why error) { fmt.Fprintln(m.log, "lost:", why) }

func (m monitor) MessagesBack() { fmt.Fprintln(m.log, "back") }

func (m monitor) ServersDiffer() { fmt.Fprintln(m.log, "differ") }

// syncLog is a log that may be read while it is written.
type syncLog struct {
	mu struct {
		sync.Mutex
		text strings.Builder
	}
}

func (l *syncLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(line)
}

func (l *syncLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.String()
}
