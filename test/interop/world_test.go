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
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// clients is what has them: a server, a cluster, or a proxy before a server.
type clients interface {
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
}

// side is a process that can hold locks of one kind and wait for them: one in Java, or one in Go.
type side interface {
	// take begins to acquire the lock, without an end of its own, and returns the result.
	take(name string) <-chan error
	// release unlocks what take acquired.
	release(t *testing.T, name string)
}

// The halves of a read-write lock, as the Java side calls them.
const (
	reading = "read"
	writing = "write"
)

// javaSide is a thread of a Java process.
type javaSide struct {
	peer   *peer
	thread string
	kind   string // what stands before the verbs of its kind
	half   []any  // what a read-write lock is taken for
}

func newJavaFair(p *peer, thread string) javaSide {
	return javaSide{peer: p, thread: thread, kind: "fair-"}
}

func newJavaHalf(p *peer, thread, half string) javaSide {
	return javaSide{p, thread, "rw.", []any{half}}
}

func (j javaSide) take(name string) <-chan error {
	words := append(append([]any{name}, j.half...), time.Hour.Milliseconds())
	return j.peer.later(j.peer.send(j.thread, j.kind+"lock", words...), isTrue)
}

// isTrue returns an error for any other value.
func isTrue(value string) error {
	if value != "true" {
		return errors.New(value)
	}
	return nil
}

func (j javaSide) release(t *testing.T, name string) {
	t.Helper()
	j.peer.must(t, j.thread, j.kind+"unlock", append([]any{name}, j.half...)...)
}

// later returns what a function says of the value that a request returns.
func (p *peer) later(reply <-chan string, judge func(value string) error) <-chan error {
	taken := make(chan error, 1)
	go func() {
		select {
		case text := <-reply:
			if value, isOK := strings.CutPrefix(text, "ok "); isOK {
				taken <- judge(value)
				return
			}
			taken <- errors.New(text)
		case <-p.done:
			taken <- errors.New("the Java process has ended")
		}
	}()
	return taken
}

// javaPermits is a thread of a Java process that takes two permits of a semaphore of three.
type javaPermits struct {
	peer   *peer
	thread string
	kind   string            // "permit" or "plain"
	held   map[string]string // ids by semaphore, or how many they are
}

func (j javaPermits) take(name string) <-chan error {
	words := []any{name, 2}
	if j.kind == "permit" {
		words = append(words, time.Hour.Milliseconds())
	}
	return j.peer.later(j.peer.send(j.thread, j.kind+"-take", words...), func(ids string) error {
		j.held[name] = ids // read after the reply was heard
		return nil
	})
}

func (j javaPermits) release(t *testing.T, name string) {
	t.Helper()
	if j.kind == "plain" {
		j.peer.must(t, j.thread, "plain-give", name, 2)
		return
	}
	require.NotEqual(t, "0", j.peer.must(t, j.thread, "permit-give-all", name, j.held[name]))
}

// goSide is a session.
type goSide struct {
	session *signalbox.Session
	kind    goKind
	leases  map[string]signalbox.Lease
}

// goKind returns what acquires a lock of its kind.
type goKind func(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error)

func byLock(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error) {
	return reentrant.New(s, name).Lock
}

func byFair(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error) {
	return fair.New(s, name).Lock
}

func byReading(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error) {
	return rwlock.New(s, name).RLock
}

func byWriting(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error) {
	return rwlock.New(s, name).Lock
}

// byPermits takes two of three.
func byPermits(options ...signalbox.LockOption) goKind {
	return func(s *signalbox.Session, name string) func(ctx context.Context) (signalbox.Lease, error) {
		return func(ctx context.Context) (signalbox.Lease, error) {
			return semaphore.New(s, name, 3, options...).Acquire(ctx, 2)
		}
	}
}

// newSession opens a session in the layout of Redisson, whose leases outlive every test.
func newSession(t *testing.T, to clients, options ...redisson.Option) *signalbox.Session {
	t.Helper()
	return locktest.Session(t, to, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout(options...)), signalbox.WithRenewedLease(time.Hour)))
}

// newGoSide returns a side in Go.
func newGoSide(t *testing.T, to clients, kind goKind, options ...redisson.Option) *goSide {
	t.Helper()
	return &goSide{newSession(t, to, options...), kind, make(map[string]signalbox.Lease)}
}

func (g *goSide) take(name string) <-chan error {
	taken := make(chan error, 1)
	go func() {
		lease, err := g.kind(g.session, name)(context.Background())
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
	require.NoError(t, redistest.Receive(t, "the lock", taken))
}

// awaitListeners waits until so many clients listen to the channel of a lock.
func awaitListeners(t *testing.T, server *redistest.Server, name string, n int) {
	t.Helper()
	redistest.Await(t, "a waiter listens", func() bool { return locktest.Listeners(t, server, "redisson_lock__channel:{"+name+"}") == n })
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

// sharedKind is a kind of locks that both sides share.
type sharedKind struct {
	java    map[string]func(p *peer, thread string) side
	gos     map[string]goKind
	channel string // what stands before the name in that of its waiters
	again   string // a message at which they try again
	permits string // the verbs of a semaphore, "" for others
}

// sharedKinds returns all but fair locks, whose waiters have a channel each.
func sharedKinds() map[string]sharedKind {
	newPermits := func(kind string) map[string]func(p *peer, thread string) side {
		return map[string]func(p *peer, thread string) side{
			"java": func(p *peer, thread string) side { return javaPermits{p, thread, kind, make(map[string]string)} },
		}
	}
	return map[string]sharedKind{
		"lock": {
			java: map[string]func(p *peer, thread string) side{
				"java": func(p *peer, thread string) side { return javaSide{peer: p, thread: thread} },
			},
			gos: map[string]goKind{"go": byLock}, channel: "redisson_lock__channel:", again: "0",
		},
		"rwlock": {
			java: map[string]func(p *peer, thread string) side{
				"java reader": func(p *peer, thread string) side { return newJavaHalf(p, thread+"r", reading) },
				"java writer": func(p *peer, thread string) side { return newJavaHalf(p, thread+"w", writing) },
			},
			gos: map[string]goKind{"go reader": byReading, "go writer": byWriting}, channel: "redisson_rwlock:", again: "1",
		},
		"permits":       {java: newPermits("permit"), gos: map[string]goKind{"go": byPermits()}, channel: "redisson_sc:", again: "2", permits: "permit"},
		"plain permits": {java: newPermits("plain"), gos: map[string]goKind{"go": byPermits(semaphore.Plain())}, channel: "redisson_sc:", again: "2", permits: "plain"},
	}
}

// sides returns those of a thread in Java, and of sessions in Go.
func (k sharedKind) sides(t *testing.T, p *peer, thread string, to clients) map[string]side {
	t.Helper()
	all := make(map[string]side)
	for name, kind := range k.gos {
		all[name] = newGoSide(t, to, kind)
	}
	for name, newSide := range k.java {
		all[name] = newSide(p, thread)
	}
	return all
}

// channelOf returns the channel of a name, to which braces are added if it has none.
func (k sharedKind) channelOf(name string) string {
	if strings.Contains(name, "{") {
		return k.channel + name
	}
	return k.channel + "{" + name + "}"
}

// begins says how many permits a semaphore has.
func (k sharedKind) begins(t *testing.T, p *peer, name string) {
	t.Helper()
	if k.permits != "" {
		require.Equal(t, "true", p.must(t, "a", k.permits+"-found", name, 3))
	}
}

// bothRead reports whether two sides do not wait for each other.
func bothRead(holder, waiter string) bool {
	return strings.HasSuffix(holder, "reader") && strings.HasSuffix(waiter, "reader")
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

// nameOf returns a name without spaces for the words.
func nameOf(words ...any) string {
	text := make([]string, len(words))
	for i, word := range words {
		text[i] = strings.ReplaceAll(fmt.Sprint(word), " ", "-")
	}
	return strings.Join(text, "-")
}
