// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/semaphore"
)

// permitKind is one of the semaphores that Redisson has.
type permitKind struct {
	name    string
	options []signalbox.LockOption
}

func permitKinds() []permitKind {
	return []permitKind{{"permit", nil}, {"plain", []signalbox.LockOption{semaphore.Plain()}}}
}

// permitSide is a process that takes permits of a semaphore of three.
type permitSide interface {
	// take begins to acquire permits, without an end of their own, and returns the result.
	take(name string, n int) <-chan error
	// release releases the permits that take acquired.
	release(t *testing.T, name string)
}

// javaPermits is a thread of a Java process.
type javaPermits struct {
	peer   *peer
	thread string
	kind   permitKind
	held   map[string]string // ids by semaphore, or how many they are
}

func (j javaPermits) take(name string, n int) <-chan error {
	ids, taken := strconv.Itoa(n), make(chan error, 1)
	arguments := []any{name, n}
	if j.kind.name == "permit" {
		arguments = append(arguments, time.Hour.Milliseconds())
	}
	reply := j.peer.send(j.thread, j.kind.name+"-take", arguments...)
	go func() {
		select {
		case text := <-reply:
			value, ok := strings.CutPrefix(text, "ok ")
			if !ok {
				taken <- errors.New(text)
				return
			}
			if j.kind.name == "permit" {
				ids = value
			}
			j.held[name] = ids // read after taken was heard
			taken <- nil
		case <-j.peer.done:
			taken <- errors.New("the Java process has ended")
		}
	}()
	return taken
}

func (j javaPermits) release(t *testing.T, name string) {
	t.Helper()
	verb := map[string]string{"permit": "permit-give-all", "plain": "plain-give"}[j.kind.name]
	require.NotEqual(t, "0", j.peer.must(t, j.thread, verb, name, j.held[name]))
}

// goPermits is a session.
type goPermits struct {
	session *signalbox.Session
	kind    permitKind
	leases  map[string]signalbox.Lease
}

func (g goPermits) of(name string) *semaphore.Semaphore {
	return semaphore.New(g.session, name, 3, g.kind.options...)
}

func (g goPermits) take(name string, n int) <-chan error {
	taken := make(chan error, 1)
	go func() {
		lease, err := g.of(name).Acquire(context.Background(), n)
		g.leases[name] = lease // read after taken was heard
		taken <- err
	}()
	return taken
}

func (g goPermits) release(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, g.leases[name].Unlock())
}

func newGoPermits(t *testing.T, to clients, kind permitKind, option signalbox.LockOption) goPermits {
	t.Helper()
	session := locktest.Session(t, to, signalbox.WithDefaults(option, signalbox.WithRenewedLease(time.Hour)))
	return goPermits{session, kind, make(map[string]signalbox.Lease)}
}

// scheduled is the least time after which a waiter in Go tries again without a message.
const scheduled = 800 * time.Millisecond

// P1, P6: the waiter has its permits when there are enough, and not before, on whichever side holder and
// waiter are; and the message wakes it. A Java waiter does nothing else. A Go waiter tries about once a
// second, so the test counts the hand-offs that are faster, and repeats until there is one.
func TestEveryWaiterForPermitsIsWokenByEveryHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/permit-acquire", 1)))
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		for _, kind := range permitKinds() {
			sides := map[string][2]permitSide{ // as holder, as waiter: a side waits in another process than it holds in
				"java": {javaPermits{p, "holder", kind, map[string]string{}}, javaPermits{other, "waiter", kind, map[string]string{}}},
				"go":   {newGoPermits(t, server, kind, signalbox.WithLayout(redisson.Layout())), newGoPermits(t, proxy, kind, signalbox.WithLayout(redisson.Layout()))},
			}
			for holder := range sides {
				for waiter := range sides {
					woken, late := 0, locktest.Context(t)
					for round := 0; round < rounds/2 || woken == 0 && late.Err() == nil; round++ {
						key := fmt.Sprintf("%s-%s-%s-%d", kind.name, holder, waiter, round)
						if round%2 == 0 || holder == "java" { // else Go says how many there are
							require.Equal(t, "true", p.must(t, "a", kind.name+"-found", key, 3))
						}
						from, to := sides[holder][0], sides[waiter][1]
						took(t, from.take(key, 2))
						taken := to.take(key, 2)
						redistest.Await(t, "a waiter listens", func() bool { return listeners(t, server, "redisson_sc:{"+key+"}") == 1 })
						require.Empty(t, taken, "taken while there are too few")
						given := time.Now()
						from.release(t, key)
						took(t, taken)
						if time.Since(given) < scheduled/2 {
							woken++
						}
						to.release(t, key)
						require.Equal(t, "3", p.must(t, "a", kind.name+"-available", key))
						require.Equal(t, "3", server.MustDo(t, "GET", key))
						require.Equal(t, []any{key}, server.MustDo(t, "KEYS", "*"+key+"*"), "nothing is left")
						server.MustDo(t, "DEL", key)
					}
					require.Positive(t, woken, "%s: %s to %s: no waiter is woken", kind.name, holder, waiter)
					t.Logf("%s: %s to %s: %d at once", kind.name, holder, waiter, woken)
				}
			}
		}
	})
}
