// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// connections answers how many there are on a server, the question's own left out.
func connections(t *testing.T, server *redistest.Server) int {
	t.Helper()
	list, _ := server.MustDo(t, "CLIENT", "LIST").(string)
	return strings.Count(list, "\n") - 1
}

// addressVariable tells a child where the server is.
const addressVariable = "SIGNALBOX_TEST_ADDRESS"

// runIdler is a process that contends for locks, gives them all back, and then has a session
// that holds nothing and waits for nothing. A line answers each line: what goroutines there are.
func runIdler(stdin io.Reader, stdout io.Writer) {
	o := rueidis.ClientOption{InitAddress: []string{os.Getenv(addressVariable)}}
	signalbox.Tune(&o)
	o.PipelineMultiplex = -1                   // one connection for commands
	o.Dialer.KeepAlive = 50 * time.Millisecond // pings often: they tell how time passes
	o.ConnWriteTimeout = patience              // and no ping is late on a busy machine
	client, err := rueidis.NewClient(o)
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	s, other := signalbox.NewSession(client), signalbox.NewSession(client)
	for i := range 3 {
		if err := handOver(s, other, fmt.Sprint(i)); err != nil {
			fmt.Fprintln(stdout, err)
			return
		}
	}
	fmt.Fprintln(stdout, "idle")
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		fmt.Fprintln(stdout, busyGoroutines())
	}
}

// handOver passes a lock from goroutine to goroutine and from session to session.
func handOver(s, other *signalbox.Session, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lease, err := reentrant.New(s, name, signalbox.RenewedLease(steady)).Lock(ctx)
	if err != nil {
		return err
	}
	answers := make(chan error)
	for _, s := range []*signalbox.Session{s, s, other, other} {
		go func() {
			answers <- reentrant.New(s, name).Do(ctx, func(context.Context, signalbox.Lease) error { return nil })
		}()
	}
	first, again := lease.Deadline(), time.NewTicker(10*time.Millisecond)
	defer again.Stop()
	for lease.Deadline().Sub(first) < shortest && ctx.Err() == nil { // until it was renewed
		<-again.C
	}
	err = lease.Unlock()
	for range 4 {
		err = errors.Join(err, <-answers)
	}
	return err
}

// clientReads is where a client reads from its connection, which the library has wrapped.
const clientReads = "rueidis.(*pipe)._backgroundRead"

// busyGoroutines answers which goroutines are in code of the library.
func busyGoroutines() string {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	var busy []string
	for i, stack := range strings.Split(string(text), "\n\n") {
		// The first is this one.
		if i > 0 && strings.Contains(stack, "signalbox-go/signalbox") &&
			!strings.Contains(stack, "signalbox_test") && !strings.Contains(stack, clientReads) {
			busy = append(busy, strings.ReplaceAll(stack, "\n", " | "))
		}
	}
	if len(busy) == 0 {
		return "none"
	}
	return strings.Join(busy, " || ")
}

// P4, P7: after the linger nothing remains of a session that holds nothing and waits for
// nothing: no goroutine, no subscription, no second connection, no key for ever, and no command
// but the client's own pings.
func TestNothingRemainsAfterTheLinger(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	process := redistest.Child(t, "idler", addressVariable+"="+server.Addr())
	line, err := process.ReadLine(3 * patience) // for three locks
	require.NoError(t, err, process.Stderr())
	require.Equal(t, "idle", line)

	await(t, "the end of the subscriptions", func() bool {
		channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
		return len(channels) == 0
	})
	await(t, "the end of the subscription connections", func() bool { return connections(t, server) == 1 })
	await(t, "the end of the goroutines", func() bool {
		process.Send("goroutines?")
		line, err = process.ReadLine(patience)
		require.NoError(t, err, process.Stderr())
		return line == "none"
	})
	require.Empty(t, held(t, server))
	for _, key := range server.Keys("*") {
		require.Positive(t, server.MustDo(t, "PTTL", key), key)
	}

	require.Empty(t, sentBy(server, func() {
		pings := server.CommandStats()["ping"].Calls
		await(t, "pings for a second", func() bool { return server.CommandStats()["ping"].Calls >= pings+20 })
	}))
}
