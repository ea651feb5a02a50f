// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// World is servers, the processes that use them, and time.
type World struct {
	*testing.T

	Life    time.Duration // the lease of all locks
	Grace   time.Duration // how much later than promised is on time
	Virtual bool          // time is virtual, so what takes hours is tried, and bounds are exact

	client func(server int, mod func(*rueidis.ClientOption)) rueidis.Client
	admins []rueidis.Client // one for each server
	prefix string           // the prefix of names: cells of a real world share its servers

	patience time.Duration             // how long a client waits for a reply
	defaults []signalbox.SessionOption // of all processes

	redis   []*miniredis.Miniredis // the servers of a virtual world
	refusal atomic.Pointer[string] // the words with which these refuse scripts; nil: they do not

	mu struct {
		sync.Mutex
		ends []func() // called at the end of the test, the last one first
	}
}

// Process is a session, or one for each server, with a wire of its own, that uses locks of one kind.
type Process struct {
	Sessions
	*Wire

	End func() // ends the process and its connections

	kind    Kind
	options []signalbox.LockOption
	prefix  string
}

// virtual is the name of the world in virtual time, and single that of one real server. The others have the names of
// redistest.Topologies and of routers.
const virtual, single = "virtual", "single"

// inWorld runs a test in a world.
func inWorld(t *testing.T, name string, servers int, test func(w *World)) {
	t.Helper()
	if name == virtual {
		locktest.Bubble(t, func(t *testing.T) {
			w := newVirtual(t, servers)
			defer w.end()
			test(w)
		})
		return
	}
	redistest.Slow(t, "in worlds that SIGNALBOX_WORLDS names, leases and polls take real time")
	redistest.NeedServer(t)
	w := newReal(t, name)
	defer w.end()
	test(w)
}

// open makes the client of the test itself for a server, without faults.
func (w *World) open(server int) {
	c := w.client(server, func(o *rueidis.ClientOption) {
		o.ClientName, o.DisableCache, o.AlwaysRESP2 = adminName, true, true
		signalbox.Tune(o) // without it a server that is full makes the client panic
	})
	w.admins = append(w.admins, c)
	w.atEnd(c.Close)
}

func (w *World) atEnd(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.ends = append(w.mu.ends, do)
}

func (w *World) end() {
	w.mu.Lock()
	ends := w.mu.ends
	w.mu.Unlock()
	for _, end := range slices.Backward(ends) {
		end()
	}
}

// Process starts a process that uses locks of a kind, with leases of Life.
func (w *World) Process(k Kind, options ...signalbox.LockOption) *Process {
	w.Helper()
	p := &Process{Wire: &Wire{}, kind: k, prefix: w.prefix}
	p.options = append(k.options(w.Life), options...)
	var clients []rueidis.Client
	for server := range w.admins {
		c := w.client(server, p.connected(w, server))
		s := signalbox.NewSession(c, w.defaults...)
		(*session.Handle)(s).Session().UnlockPatience = w.patience
		p.Sessions, clients = append(p.Sessions, s), append(clients, c)
	}
	p.End = sync.OnceFunc(func() {
		_ = p.Close(locktest.Ended()) // says that leases were left, which the test knows
		for _, c := range clients {
			c.Close()
		}
	})
	w.atEnd(p.End)
	return p
}

// connected makes a client of this process for a server, whose connections have its wire.
func (p *Process) connected(w *World, server int) func(o *rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) {
		dial := o.DialCtxFn
		if dial == nil {
			dial = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
				if t == nil {
					return d.DialContext(ctx, "tcp", addr)
				}
				return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
			}
		}
		o.ConnWriteTimeout, o.DisableCache = w.patience, true
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			return p.connect(server, func() (net.Conn, error) { return dial(ctx, addr, d, t) })
		}
		signalbox.Tune(o)
	}
}

// Close closes the sessions.
func (p *Process) Close(ctx context.Context) (err error) {
	for _, s := range p.Sessions {
		err = errors.Join(err, s.Close(ctx))
	}
	return err
}

// Rival starts a process that uses what a kind excludes.
func (w *World) Rival(k Kind) *Process {
	w.Helper()
	return w.Process(k.rival())
}

// Lock returns the lock of a name in this process.
func (p *Process) Lock(name string, more ...signalbox.LockOption) Lock {
	if name != "" {
		name = p.prefix + name
	}
	return p.kind.New(p.Sessions, name, slices.Concat(p.options, more)...)
}

// rounds returns how often something is tried: rarely on real servers, where all cells share the processors and real time.
func (w *World) rounds(few, many int) int {
	if !w.Virtual {
		return few
	}
	return redistest.Rounds(few, many)
}

// Context returns a context that ends in 20 minutes: no call takes as long, and one that hangs fails.
func (w *World) Context() context.Context {
	ctx, cancel := context.WithTimeout(w.T.Context(), 20*time.Minute)
	w.atEnd(cancel)
	return ctx
}

// Holds acquires a lock within a minute.
func (w *World) Holds(p *Process, name string) Hold {
	w.Helper()
	return w.HoldsWithin(p, name, time.Minute)
}

// HoldsWithin acquires a lock within d.
func (w *World) HoldsWithin(p *Process, name string, d time.Duration) Hold {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	h, err := p.Lock(name).Lock(ctx)
	require.NoError(w, err)
	return h
}

// waiter is a Lock on another goroutine.
type waiter <-chan locktest.Result[Hold]

// Waits starts a Lock, and returns when it waits: its request was sent, and it listens.
func (w *World) Waits(ctx context.Context, p *Process, name string) waiter {
	w.Helper()
	before, _ := p.Busy()
	got := locktest.LaterWith(ctx, p.Lock(name).Lock)
	if !w.Virtual {
		redistest.Await(w, "the request of a waiter", func() bool {
			executed, _ := p.Busy()
			return executed > before
		})
	}
	w.Arrive(p)
	return got
}

// Arrive lets everything arrive that these processes have sent.
func (w *World) Arrive(processes ...*Process) {
	if w.Virtual {
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		return
	}
	time.Sleep(100 * time.Millisecond)
	for _, p := range processes {
		redistest.PollUntil(redistest.Patience, func() bool {
			_, awaits := p.Busy()
			return !awaits
		})
	}
}

// Gets requires that a waiter has the lock within d from now.
func (w *World) Gets(waiting waiter, d time.Duration) Hold {
	w.Helper()
	began := time.Now()
	select {
	case got := <-waiting:
		require.NoError(w, got.Err)
		return got.Value
	case <-time.After(d + w.Grace):
		require.Fail(w, "a waiter waits for too long", "%v", time.Since(began))
		return nil
	}
}

// Free requires that a process acquires the lock at once. It releases it.
func (w *World) Free(p *Process, name string) {
	w.Helper()
	require.True(w, w.isFree(p, name, soon+w.Grace), "the lock is not free")
}

// Held requires that a process does not acquire the lock soon.
func (w *World) Held(p *Process, name string) {
	w.Helper()
	require.False(w, w.isFree(p, name, soon), "the lock is free")
}

// soon is how long a call waits for what is free, or is not.
const soon = 300 * time.Millisecond

func (w *World) isFree(p *Process, name string, patience time.Duration) bool {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	h, err := p.Lock(name).Lock(ctx)
	if err != nil {
		return false
	}
	require.NoError(w, locktest.IgnoreUnconfirmed(h.Unlock()))
	return true
}

// Rises requires that a later hold has a greater token than an earlier one, if tokens of the kind rise.
func (w *World) Rises(k Kind, earlier, later Hold) {
	w.Helper()
	if !k.NoTokens {
		require.Greater(w, later.Token(), earlier.Token())
	}
}

// Lost requires that a hold has ended with ErrLost, and that its Unlock says so.
func (w *World) Lost(h Hold) {
	w.Helper()
	require.True(w, locktest.IsClosed(h.Done()))
	require.ErrorIs(w, h.Err(), signalbox.ErrLost)
	require.ErrorIs(w, h.Unlock(), signalbox.ErrLost)
}

// Unlocks requires that a hold is live, and releases it. On real servers it may be over: a hold that a queue granted begins with
// three seconds, and a busy machine may take longer.
func (w *World) Unlocks(h Hold) {
	w.Helper()
	require.NoError(w, w.release(h))
}

// Released does the same on another goroutine than that of the test, and returns whether all is well.
func (w *World) Released(h Hold) bool {
	w.Helper()
	return assert.NoError(w, locktest.IgnoreUnconfirmed(w.release(h)))
}

func (w *World) release(h Hold) error {
	before := h.Err()
	err := h.Unlock()
	if !w.Virtual && (errors.Is(err, signalbox.ErrLost) || errors.Is(err, signalbox.ErrUnconfirmed)) {
		return nil
	}
	return errors.Join(before, err)
}
