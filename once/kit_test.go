// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
)

// key is the key of the outcome of "a".
const key = "sb:{a}:once"

// got is what Do returned.
type got struct {
	value string
	isNil bool
	ran   bool
	err   error
}

// do calls Do.
func do(ctx context.Context, o *once.Once, fn once.Func) got {
	value, ran, err := o.Do(ctx, fn)
	return got{string(value), value == nil, ran, err}
}

// later calls Do on another goroutine.
func later(ctx context.Context, o *once.Once, fn once.Func) <-chan got {
	returned := make(chan got, 1)
	go func() { returned <- do(ctx, o, fn) }()
	return returned
}

// returns is a function that returns a value.
func returns(value string) once.Func {
	return func(context.Context, signalbox.Lease) ([]byte, error) { return []byte(value), nil }
}

// fails is a function that returns an error.
func fails(err error) once.Func {
	return func(context.Context, signalbox.Lease) ([]byte, error) { return nil, err }
}

// never is a function that must not run.
func never(tb testing.TB) once.Func {
	tb.Helper()
	return func(context.Context, signalbox.Lease) ([]byte, error) {
		tb.Error("the function runs")
		return nil, context.Canceled
	}
}

// gate is a function that runs until it is opened.
type gate struct {
	begun chan signalbox.Lease // receives each run
	open  chan struct{}
	runs  atomic.Int32
	value string
	err   error
}

func newGate(value string) *gate {
	return &gate{begun: make(chan signalbox.Lease, 100), open: make(chan struct{}), value: value}
}

func (g *gate) run(_ context.Context, lease signalbox.Lease) ([]byte, error) {
	g.runs.Add(1)
	g.begun <- lease
	<-g.open
	return []byte(g.value), g.err
}

// requireRan checks that a call ran its function, and what it returned.
func requireRan(tb testing.TB, want string, r got) {
	tb.Helper()
	require.NoError(tb, r.err)
	require.Equal(tb, got{value: want, ran: true}, r)
}

// requireStored checks that a call returned the outcome of another.
func requireStored(tb testing.TB, want string, r got) {
	tb.Helper()
	require.NoError(tb, r.err)
	require.Equal(tb, got{value: want}, r)
}

// session returns a session of its own, as another process would have it.
func session(tb testing.TB, at redistest.Dialer, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	return locktest.SteadySession(tb, at, options...)
}

// receive returns what a call on another goroutine returned.
func receive(tb testing.TB, returned <-chan got) got {
	tb.Helper()
	return redistest.Receive(tb, "the return of Do", returned)
}

// awaitTickets waits until so many sessions wait for the lock of "a".
func awaitTickets(tb testing.TB, server *redistest.Server, n int) {
	tb.Helper()
	redistest.Await(tb, "tickets", func() bool { return locktest.Tickets(tb, server, "a") == n })
}

// fairLock acquires the fair lock of a name.
func fairLock(s *signalbox.Session, name string) func(context.Context) (signalbox.Lease, error) {
	return fair.New(s, name).Lock
}
