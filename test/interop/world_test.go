// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// clients is what has them: a server or a proxy before it.
type clients interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// side is a process that can hold a lock and wait for it: one in Java, or one in Go.
type side interface {
	// take begins to acquire the lock, without an end of its own, and returns the result.
	take(name string) <-chan error
	// release unlocks what take acquired.
	release(t *testing.T, name string)
}

// javaSide is a thread of a Java process.
type javaSide struct {
	peer   *peer
	thread string
}

func (j javaSide) take(name string) <-chan error {
	return j.peer.later(j.peer.send(j.thread, "lock", name, time.Hour.Milliseconds()))
}

// later returns the error of a request whose reply must be true.
func (p *peer) later(reply <-chan string) <-chan error {
	taken := make(chan error, 1)
	go func() {
		select {
		case text := <-reply:
			if text == "ok true" {
				taken <- nil
				return
			}
			taken <- errors.New(text)
		case <-p.done:
			taken <- errors.New("the Java process has ended")
		}
	}()
	return taken
}

func (j javaSide) release(t *testing.T, name string) {
	t.Helper()
	j.peer.must(t, j.thread, "unlock", name)
}

// goSide is a session.
type goSide struct {
	session *signalbox.Session
	leases  map[string]signalbox.Lease
}

// newGoSide returns a side in Go, whose leases outlive every test.
func newGoSide(t *testing.T, to clients) *goSide {
	t.Helper()
	return &goSide{
		session: locktest.Session(t, to, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()), signalbox.WithRenewedLease(time.Hour))),
		leases:  make(map[string]signalbox.Lease),
	}
}

func (g *goSide) lock(name string) *reentrant.Lock { return reentrant.New(g.session, name) }

func (g *goSide) take(name string) <-chan error { return g.by(name, g.lock(name).Lock) }

// by takes a lock.
func (g *goSide) by(name string, take func(context.Context) (signalbox.Lease, error)) <-chan error {
	taken := make(chan error, 1)
	go func() {
		lease, err := take(context.Background())
		g.leases[name] = lease // read after taken was heard
		taken <- err
	}()
	return taken
}

func (g *goSide) release(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, g.leases[name].Unlock())
}

// took waits until a lock is taken.
func took(t *testing.T, taken <-chan error) {
	t.Helper()
	select {
	case err := <-taken:
		require.NoError(t, err)
	case <-locktest.Context(t).Done():
		require.FailNow(t, "the lock is not taken")
	}
}

// awaitListeners waits until so many clients listen to the channel of a lock.
func awaitListeners(t *testing.T, server *redistest.Server, name string, n int64) {
	t.Helper()
	redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, "redisson_lock__channel:{"+name+"}") == n })
}

// awaitNothing waits until no key is left, except the results of releases, which Java may leave to expire.
func awaitNothing(t *testing.T, server *redistest.Server) {
	t.Helper()
	redistest.Await(t, "no key is left", func() bool {
		keys, _ := server.MustDo(t, "KEYS", "*").([]any)
		return !slices.ContainsFunc(keys, func(key any) bool {
			return !strings.HasPrefix(fmt.Sprint(key), "redisson_unlock_latch:")
		})
	})
}
