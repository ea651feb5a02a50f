// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// The environment of a worker.
const (
	urlEnv   = "SIGNALBOX_INTEROP_URL"
	timesEnv = "SIGNALBOX_INTEROP_TIMES"
	lifeEnv  = "SIGNALBOX_INTEROP_LIFE"
	fairEnv  = "SIGNALBOX_INTEROP_FAIR"
)

// workers is how many there are on either side: threads of one Java process, and processes in Go.
const workers = 4

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// dial opens the session of a child, in the layout of Redisson if its leases are to have a length.
func dial() *signalbox.Session {
	var options []signalbox.SessionOption
	if text := os.Getenv(lifeEnv); text != "" {
		life, err := time.ParseDuration(text)
		must(err)
		options = append(options, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(life)))
	}
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv), options...)
	must(err)
	return s
}

// child runs a function of this program, which uses a server, in a process of its own.
func child(t *testing.T, name string, server *redistest.Server, life time.Duration, env ...string) *redistest.Process {
	t.Helper()
	return redistest.Child(t, name, append(env, urlEnv+"="+server.URL(), lifeEnv+"="+life.String())...)
}

// runWorker adds one to a counter many times, each time under the lock, by a read and a write that nothing else protects. P3: its tokens
// are greater than those of all processes in Go before.
func runWorker(_ io.Reader, stdout io.Writer) {
	times, client := workOf()
	s, ctx := dial(), context.Background()
	lock := reentrant.New(s, "work").Lock
	if os.Getenv(fairEnv) != "" {
		lock = fair.New(s, "work").Lock
	}
	for range times {
		lease, err := lock(ctx)
		must(err)
		must(addOne(ctx, client, lease.Token()))
		must(lease.Unlock())
	}
	must(s.Close(ctx))
	client.Close()
	fmt.Fprintln(stdout, "done", times)
}

// workOf returns how often a worker is to count, and a client to count by.
func workOf() (times int, client rueidis.Client) {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	must(err)
	option, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	signalbox.Tune(&option)
	client, err = rueidis.NewClient(option)
	must(err)
	return times, client
}

// addOne adds one to the counter. P3: token is greater than those of all processes in Go before.
func addOne(ctx context.Context, client rueidis.Client, token uint64) error {
	latest, err := client.Do(ctx, client.B().Get().Key("token").Build()).AsUint64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if token <= latest {
		return fmt.Errorf("token %d after %d of whatever process", token, latest)
	}
	if err := client.Do(ctx, client.B().Set().Key("token").Value(strconv.FormatUint(token, 10)).Build()).Error(); err != nil {
		return err
	}
	count, err := client.Do(ctx, client.B().Get().Key("counter").Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	return client.Do(ctx, client.B().Set().Key("counter").Value(strconv.FormatInt(count+1, 10)).Build()).Error()
}

// count makes all workers of both sides count together, each so many times, and fails the test if a count is lost.
func count(t *testing.T, release string, times int, limit time.Duration) {
	t.Helper()
	server := redistest.Start(t)
	p := newPeer(t, release, server)
	var threads []<-chan string
	var processes []*redistest.Process
	for n := range workers {
		threads = append(threads, p.send(strconv.Itoa(n), "work", "work", "counter", times))
		processes = append(processes, child(t, "worker", server, 30*time.Second, timesEnv+"="+strconv.Itoa(times)))
	}
	for _, reply := range threads {
		require.Equal(t, "ok "+strconv.Itoa(times), redistest.ReceiveFor(t, limit, "the end of a thread", reply))
	}
	require.Equal(t, workers*times, finished(t, processes, limit))
	require.Equal(t, strconv.Itoa(2*workers*times), server.MustDo(t, "GET", "counter"), "counts were lost")
	server.MustDo(t, "DEL", "counter", "token")
	awaitNothing(t, server)
}

// finished waits until workers are done, and returns how often they counted.
func finished(t *testing.T, processes []*redistest.Process, limit time.Duration) (sum int) {
	t.Helper()
	for _, process := range processes {
		line, err := process.ReadLine(limit)
		require.NoError(t, err, process.Stderr())
		n, err := strconv.Atoi(strings.TrimPrefix(line, "done "))
		require.NoError(t, err, process.Stderr())
		require.Zero(t, process.Wait(redistest.WaitLimit), process.Stderr())
		sum += n
	}
	return sum
}

// P1: no update is lost that either side makes under the lock.
func TestNoCountIsLost(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) { count(t, release, 100, 5*time.Minute) })
}

// P1: the same, again and again: some 50,000 times in a minute.
func TestSoakNoCountIsLost(t *testing.T) { //nolint:paralleltest // has the machine to itself
	more, lines := locktest.Soak(t), []string{"redisson4", "redisson3"}
	for i := 0; more(); i++ {
		t.Run(strconv.Itoa(i), func(t *testing.T) { // which ends its processes
			count(t, lines[i%len(lines)], 625, time.Hour)
		})
	}
}
