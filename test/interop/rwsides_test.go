// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// The halves of a read-write lock, as the Java side calls them.
const (
	reading = "read"
	writing = "write"
)

// javaHalf is a thread of a Java process that reads or writes.
type javaHalf struct {
	peer   *peer
	thread string
	half   string
}

func (j javaHalf) take(name string) <-chan error {
	return j.peer.later(j.peer.send(j.thread, "rw.lock", name, j.half, time.Hour.Milliseconds()))
}

func (j javaHalf) release(t *testing.T, name string) {
	t.Helper()
	j.peer.must(t, j.thread, "rw.unlock", name, j.half)
}

// goHalf is a session that reads or writes.
type goHalf struct {
	*goSide

	half string
}

func newGoHalf(t *testing.T, to clients, half string) goHalf {
	t.Helper()
	return goHalf{newGoSide(t, to), half}
}

func (g goHalf) lock(name string) *rwlock.Lock { return rwlock.New(g.session, name) }

func (g goHalf) take(name string) <-chan error {
	lock := g.lock(name)
	if g.half == reading {
		return g.by(name, lock.RLock)
	}
	return g.by(name, lock.Lock)
}

// halvesOf returns a reader and a writer of each side: a thread in Java, a session in Go.
func halvesOf(t *testing.T, p *peer, thread string, to clients) map[string]side {
	t.Helper()
	return map[string]side{
		"java reader": javaHalf{p, thread + "r", reading}, "java writer": javaHalf{p, thread + "w", writing},
		"go reader": newGoHalf(t, to, reading), "go writer": newGoHalf(t, to, writing),
	}
}

// tookByMessage waits until a lock is acquired, and reports whether that was at once. A Java client misses a `1`
// that arrives between its second try and its sleep, so notify sends it again, once a second.
func tookByMessage(t *testing.T, taken <-chan error, notify func()) (atOnce bool) {
	t.Helper()
	again, late := time.NewTicker(time.Second), time.NewTimer(redistest.Patience)
	defer again.Stop()
	defer late.Stop()
	for atOnce = true; ; atOnce = false {
		select {
		case err := <-taken:
			require.NoError(t, err)
			return atOnce
		case <-again.C:
			notify()
		case <-late.C:
			require.FailNow(t, "the lock is not taken")
		}
	}
}

// notifiesRW returns a function that notifies the waiters of a read-write lock.
func notifiesRW(t *testing.T, server *redistest.Server, name string) func() {
	t.Helper()
	return func() { server.MustDo(t, "PUBLISH", rwChannel(name), "1") }
}

// The environment of a child of a read-write lock, beside the server's address.
const (
	halfEnv = "SIGNALBOX_INTEROP_HALF"
	seedEnv = "SIGNALBOX_INTEROP_SEED"
)

// runRWHolder acquires one half of the lock "a", says so, and holds it until its input ends. It replies to
// each line with the state of its lease, and with what Unlock returned if the line asks for a release.
func runRWHolder(stdin io.Reader, stdout io.Writer) {
	lock := rwlock.New(dial(), "a")
	take := lock.Lock
	if os.Getenv(halfEnv) == reading {
		take = lock.RLock
	}
	lease, err := take(context.Background())
	must(err)
	fmt.Fprintln(stdout, "held")
	for in := bufio.NewScanner(stdin); in.Scan(); {
		fmt.Fprintf(stdout, "lost %t, reported by Unlock %t\n", errors.Is(lease.Err(), signalbox.ErrLost), errors.Is(lease.Unlock(), signalbox.ErrLost))
	}
}

// holdsHalf starts a process in Go that holds one half of the lock "a", and renews it for as long as it lives.
func holdsHalf(t *testing.T, server *redistest.Server, half string) *redistest.Process {
	t.Helper()
	holder := child(t, "rwholder", server, 5*time.Second, halfEnv+"="+half)
	said, err := holder.ReadLine(redistest.WaitLimit)
	require.NoError(t, err, holder.Stderr())
	require.Equal(t, "held", said)
	return holder
}

// runRWWorker reads, writes and downgrades in turns many times, and notes in counters who is in the yard: a writer is to be alone there.
func runRWWorker(_ io.Reader, stdout io.Writer) {
	times, err := strconv.Atoi(os.Getenv(timesEnv))
	must(err)
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	must(err)
	option, err := rueidis.ParseURL(os.Getenv(urlEnv))
	must(err)
	signalbox.Tune(&option)
	client, err := rueidis.NewClient(option)
	must(err)
	s, ctx := dial(), context.Background()
	y := yard{client, rwlock.New(s, "work")}
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // that a run can be repeated
	for range times {
		switch random.IntN(6) {
		case 0:
			must(y.lock.Do(ctx, y.write))
		case 1:
			must(y.lock.Do(ctx, func(ctx context.Context, lease signalbox.Lease) error {
				if err := y.write(ctx, lease); err != nil {
					return err
				}
				if err := y.lock.Downgrade(ctx, lease); err != nil {
					return err
				}
				return y.read(ctx, lease)
			}))
		default:
			must(y.lock.RDo(ctx, y.read))
		}
	}
	must(s.Close(ctx))
	client.Close()
	fmt.Fprintln(stdout, "done")
}

// yard is what a read-write lock protects.
type yard struct {
	client rueidis.Client
	lock   *rwlock.Lock
}

func (y yard) write(ctx context.Context, _ signalbox.Lease) error {
	return y.enter(ctx, "yard:writers", "yard:readers", 1)
}

func (y yard) read(ctx context.Context, _ signalbox.Lease) error {
	return y.enter(ctx, "yard:readers", "yard:writers", 0)
}

// enter counts itself in and out. It finds none of the others inside, and no more than most of its own.
func (y yard) enter(ctx context.Context, own, others string, most int64) error {
	here, err := y.client.Do(ctx, y.client.B().Incr().Key(own).Build()).AsInt64()
	if err != nil {
		return err
	}
	there, err := y.client.Do(ctx, y.client.B().Get().Key(others).Build()).AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err
	}
	if there != 0 || most > 0 && here > most {
		return fmt.Errorf("%s: %d, and %d of %s", own, here, there, others)
	}
	return y.client.Do(ctx, y.client.B().Decr().Key(own).Build()).Error()
}
