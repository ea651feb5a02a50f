// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// ManyHolds is many names of mixed kinds behind a router. One session holds all of them, and another waits for some.
type ManyHolds struct {
	testing.TB

	router  *redistest.Router
	faults  RouterFaults
	life    time.Duration
	began   time.Time
	held    []Held
	waiting []<-chan Result[Held]
	several int // the scripts with keys of several slots that had come when all names were held

	mu struct {
		sync.Mutex
		executed int                // the requests that shards executed
		scripts  map[sentScript]int // how often each script was among them
		renewed  map[string]int     // the renewals of each key that had a reply
	}
}

// sentScript is a script with its first key.
type sentScript struct{ digest, key string }

// RouterFaults is what a router does with scripts that have keys of one slot.
type RouterFaults int

const (
	// NoFaults says that it sends them to their shard.
	NoFaults RouterFaults = iota
	// InventsErrors says that it swallows every third reply to each script of each key, and invents an error in its place.
	// So the repetition of a call has a reply.
	InventsErrors
	// Redirects says that for a sixth of a lease, every two leases, it redirects those of half of the slots, by MOVED and ASK.
	Redirects
)

// waitsFor is how many names there are for each waiter. It has no factor in common with MixedKinds, so waiters wait for
// every kind.
const waitsFor = 3

// HoldMany acquires n names by one session, each with a lease of life that is renewed, and lets another one wait for some.
func HoldMany(ctx context.Context, tb testing.TB, router *redistest.Router, faults RouterFaults, holder, waiter *signalbox.Session, n int, life time.Duration) *ManyHolds {
	tb.Helper()
	m := &ManyHolds{TB: tb, router: router, faults: faults, life: life, began: time.Now()}
	m.mu.scripts, m.mu.renewed = make(map[sentScript]int), make(map[string]int)
	router.InjectErrors(m.replied)
	router.InjectRefusals(m.redirection)
	options := signalbox.WithRenewedLease(life)
	for i := range n {
		held, err := Mixed(ctx, holder, i, false, options)
		require.NoError(tb, err, "name %d", i)
		m.held = append(m.held, held)
	}
	for i := 0; i < n; i += waitsFor {
		m.waiting = append(m.waiting, Later(func() (Held, error) { return Mixed(ctx, waiter, i, true, options) }))
	}
	m.several = router.Several()
	return m
}

// replied is called for each request that a shard has executed. It returns the error to send instead of the reply, or "".
func (m *ManyHolds) replied(words []string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.executed++
	script := Script(words)
	if script == nil || words[2] == "0" {
		return ""
	}
	key := words[3]
	sent := sentScript{script.SHA1, key}
	m.mu.scripts[sent]++
	if m.faults == InventsErrors && m.mu.scripts[sent]%3 == 0 {
		return "ERR upstream failure"
	}
	if strings.HasSuffix(script.Name, "/renew") && words[2] == "1" {
		m.mu.renewed[key]++
	}
	return ""
}

// redirection is called for each request before it is executed. It returns the error to send instead, or "".
func (m *ManyHolds) redirection(words []string) string {
	if m.faults != Redirects || Script(words) == nil || len(words) < 4 {
		return ""
	}
	if at := time.Since(m.began) % (2 * m.life); at < m.life || at >= m.life+m.life/6 {
		return ""
	}
	switch slot := wire.Slot(words[3]); slot % 4 {
	case 0:
		return fmt.Sprintf("MOVED %d 127.0.0.1:1", slot)
	case 1:
		return fmt.Sprintf("ASK %d 127.0.0.1:1", slot)
	}
	return ""
}

// Check fails the test if a name is lost, or granted to a waiter.
func (m *ManyHolds) Check() {
	m.Helper()
	for i, held := range m.held {
		require.NoError(m, held.Err(), "name %d, after %v", i, time.Since(m.began))
	}
	for i, w := range m.waiting {
		select {
		case got := <-w:
			m.Fatalf("the waiter for name %d returned %v, %v", i*waitsFor, got.Value, got.Err)
		default:
		}
	}
}

// LeastRenewals returns how often the hold that was renewed least was renewed.
func (m *ManyHolds) LeastRenewals() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.renewed) < m.keys() {
		return 0
	}
	least := -1
	for _, n := range m.mu.renewed {
		if least < 0 || n < least {
			least = n
		}
	}
	return least
}

// keys returns how many keys the holds have.
func (m *ManyHolds) keys() int { return len(m.held) / MixedKinds * MixedKeys }

// CheckCost fails the test if shards executed more requests than holds and waiters cost, or if scripts with keys of
// several slots were sent that are no probes.
func (m *ManyHolds) CheckCost() {
	m.Helper()
	m.mu.Lock()
	executed := m.mu.executed
	m.mu.Unlock()
	took := time.Since(m.began)
	renewals := 3 * took.Seconds() / m.life.Seconds() * float64(m.keys())
	polls := 2 * took.Seconds() * float64(len(m.waiting))
	m.Logf("%v: %d keys renewed %d times at least, %d requests (%.0f renewals and %.0f polls were due), %d scripts over slots",
		took.Round(time.Second), m.keys(), m.LeastRenewals(), executed, renewals, polls, m.router.Several())
	require.Less(m, float64(executed), 1.5*(renewals+polls)+2000)
	const probes = 2 * 8 // a minute of each session's, the pause doubles
	require.Less(m, m.router.Several()-m.several, probes)
}

// Release releases all names. Each waiter gets its own, and releases it.
func (m *ManyHolds) Release() {
	m.Helper()
	for i, held := range m.held {
		require.NoError(m, IgnoreUnconfirmed(held.Unlock()), "name %d", i)
	}
	for i, w := range m.waiting {
		got := <-w
		require.NoError(m, got.Err, "the waiter for name %d", i*waitsFor)
		require.NoError(m, IgnoreUnconfirmed(got.Value.Unlock()))
	}
}

// Held is a lease, or a leader's term.
type Held interface {
	Err() error
	Unlock() error
}

// leaderTerm is a term that is ended as a lease is.
type leaderTerm struct{ election.Term }

// Unlock ends the term.
func (t leaderTerm) Unlock() error { return t.Resign() }

// MixedKinds is how many kinds Mixed has, and MixedKeys how many keys the holds of all of them have.
const MixedKinds, MixedKeys = 10, 14

// Mixed acquires the n-th of many names. The kinds take turns. No two calls hold a name at the same time, unless both read
// one, and waits says that this call does not read.
func Mixed(ctx context.Context, s *signalbox.Session, n int, waits bool, options ...signalbox.LockOption) (Held, error) { //nolint:revive // two callers, one of each
	name := fmt.Sprint("mixed-", n)
	switch n % MixedKinds {
	case 0:
		return fair.New(s, name, options...).Lock(ctx)
	case 1:
		return rwlock.New(s, name, options...).Lock(ctx)
	case 2:
		if waits {
			return rwlock.New(s, name, options...).Lock(ctx)
		}
		return rwlock.New(s, name, options...).RLock(ctx)
	case 3:
		return semaphore.New(s, name, 2, options...).Acquire(ctx, 2)
	case 4:
		term, err := election.New(s, name, options...).Campaign(ctx)
		return leaderTerm{term}, err
	case 5:
		return multilock.New(reentrant.New(s, name+"/a", options...), reentrant.New(s, name+"/b", options...),
			reentrant.New(s, name+"/c", options...)).Lock(ctx)
	case 6:
		return multilock.New(fair.New(s, name+"/a", options...), rwlock.New(s, name+"/b", options...),
			semaphore.New(s, name+"/c", 3, options...).Permits(2)).Lock(ctx)
	case 7:
		return RedissonReentrant().New(s, name, options...).Lock(ctx)
	case 8:
		return SetNX().New(s, name, options...).Lock(ctx)
	}
	return reentrant.New(s, name, options...).Lock(ctx)
}
