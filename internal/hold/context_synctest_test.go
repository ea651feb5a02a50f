// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

type contextKey struct{}

// A session that lives for days binds its lease for every request, to contexts that never end or to
// that of the process. What is kept for that does not grow.
func TestContextsOfOneParentShareABond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(t, "key")
		process, stop := context.WithCancelCause(context.Background())
		parents := []context.Context{context.Background(), process}
		var bound []context.Context
		for range 1000 {
			for _, parent := range parents {
				request := context.WithValue(parent, contextKey{}, len(bound))
				bound = append(bound, l.Bind(request), l.Enter(context.WithValue(request, carriedKey{}, nil)))
			}
		}
		require.Equal(t, len(parents), b.watchers())
		for i, ctx := range bound {
			require.NoError(t, ctx.Err())
			require.Equal(t, i/2*2, ctx.Value(contextKey{}), "the value of another request")
		}
		why := errors.New("the process ends")
		stop(why)
		for i, ctx := range bound {
			if i/2%len(parents) == 0 {
				require.NoError(t, ctx.Err())
			} else {
				require.Equal(t, why, context.Cause(ctx))
			}
		}
		synctest.Wait()
		require.Equal(t, 1, b.watchers())
		require.NoError(t, l.Unlock())
		require.Equal(t, errs.ErrReleased, context.Cause(bound[0]))
		require.Zero(t, b.watchers())
	})
}

func TestAnotherContextOfAParentAllocatesItself(t *testing.T) {
	_, l := begin(t, "key")
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, ctx := range []context.Context{context.Background(), parent} {
		l.Bind(ctx)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { l.Bind(ctx) }), 1.0)
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() { l.Enter(ctx) }), 1.0)
	}
}

// lateContext is a parent that ends before it ends its children, as a parent with many children
// does.
type lateContext struct {
	context.Context

	done chan struct{}
}

func (c *lateContext) Done() <-chan struct{} { return c.done }

func (c *lateContext) Err() error {
	if isClosed(c.done) {
		return context.DeadlineExceeded
	}
	return nil
}

func (*lateContext) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// stuckContext is a parent whose function that forgets a child panics, or does not return.
type stuckContext struct {
	context.Context

	fault func()
}

func (*stuckContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *stuckContext) AfterFunc(func()) (stop func() bool) {
	return func() bool {
		c.fault()
		return true
	}
}

// A context of a caller that panics or blocks when a lease ends delays neither the Unlock nor another context.
func TestForeignContextDelaysNoOther(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(blocked chan struct{}){
		"panics": func(chan struct{}) { panic("a bug") },
		"exits":  func(chan struct{}) { runtime.Goexit() },
		"blocks": func(blocked chan struct{}) { <-blocked },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				blocked := make(chan struct{})
				defer close(blocked)
				_, l := begin(t, "key")
				var all []context.Context
				parent, cancel := context.WithCancel(t.Context())
				defer cancel()
				for range 3 {
					all = append(all, l.Bind(&stuckContext{t.Context(), func() { fault(blocked) }}), l.Bind(parent), l.Bind(context.Background()))
				}
				require.NoError(t, l.Unlock())
				synctest.Wait()
				for _, ctx := range all {
					require.True(t, isClosed(ctx.Done()))
				}
			})
		})
	}
}

// As in package context: a child of a context that has ended has ended, too.
func TestContextOfAnEndedParentHasEnded(t *testing.T) {
	t.Parallel()
	_, l := begin(t, "key")
	parent := &lateContext{t.Context(), make(chan struct{})}
	early := l.Bind(parent)
	close(parent.done)
	require.NoError(t, early.Err(), "it has not been notified")
	late := l.Bind(parent)
	require.Equal(t, context.DeadlineExceeded, late.Err())
	require.True(t, isClosed(late.Done()))
	require.NoError(t, l.Unlock())
	require.Equal(t, context.Canceled, early.Err())
}

// A context that is kept after its lease has ended does not keep the values of other requests.
func TestKeptContextKeepsNoOtherParents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, l := begin(t, "key")
		kept := l.Bind(t.Context())
		// In a function of its own, so that nothing on this stack keeps the value.
		value := func() weak.Pointer[[1024]byte] {
			value := new([1024]byte)
			l.Bind(&lateContext{context.WithValue(context.Background(), contextKey{}, value), make(chan struct{})})
			return weak.Make(value)
		}()
		runtime.GC()
		require.NotNil(t, value.Value(), "the lease lives, and its parent too")
		require.NoError(t, l.Unlock())
		synctest.Wait()
		runtime.GC()
		require.Nil(t, value.Value())
		require.Error(t, kept.Err())
	})
}

func TestEndedContextIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(t, "key")
		lasting := l.Bind(t.Context())
		for range 100 {
			request, cancel := context.WithCancel(t.Context())
			bound := l.Enter(request)
			cancel()
			require.Equal(t, context.Canceled, bound.Err())
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		l.Bind(ended)
		synctest.Wait()
		require.Equal(t, 1, b.watchers(), "a lease keeps the contexts of requests that are over")
		require.NoError(t, lasting.Err())
		require.NoError(t, l.Unlock())
		require.Zero(t, b.watchers())
	})
}

// contextGoroutines returns how many goroutines there are that wait for the end of a context which
// package context does not know how to hang a child onto.
func contextGoroutines() int {
	synctest.Wait()
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "created by context.(*cancelCtx).propagateCancel")
}

// What is bound for each piece of work of a term of days costs one bond for all parents with the same end.
func TestBondsKeepNothingForWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bonds
		var over error
		root, end := context.WithCancelCause(context.Background())
		bind := func(ctx context.Context) context.Context { return b.Bind(ctx, root, func() error { return over }) }
		parent, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var all []context.Context
		for n := range 1000 {
			all = append(all, bind(context.WithValue(parent, contextKey{}, n)), bind(context.Background()))
		}
		require.Len(t, b.all, 2)
		for n := range 1000 {
			require.Equal(t, n, all[2*n].Value(contextKey{}))
			_, is := all[2*n].Deadline()
			require.True(t, is)
		}
		for range 1000 {
			request, done := context.WithCancel(t.Context())
			bound := bind(request)
			require.NoError(t, bound.Err())
			done()
			require.ErrorIs(t, bind(request).Err(), context.Canceled)
			synctest.Wait()
			require.ErrorIs(t, bound.Err(), context.Canceled)
		}
		require.Len(t, b.all, 2)
		child, stop := context.WithCancel(all[0])
		defer stop()
		require.Zero(t, contextGoroutines())

		cause := errors.New("the term is over")
		end(cause)
		synctest.Wait()
		for _, ctx := range append(all, child) {
			require.Equal(t, cause, context.Cause(ctx))
		}
		require.Empty(t, b.all)
		over = cause
		require.Equal(t, cause, context.Cause(bind(parent)))
		require.Empty(t, b.all)
	})
}

// The clock may show that the root is over before that has ended.
func TestAContextOfARootComparesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bonds
		var over error
		bound := b.Bind(t.Context(), context.Background(), func() error { return over })
		require.NoError(t, bound.Err())
		over = errors.New("the lease is over")
		require.ErrorIs(t, bound.Err(), context.Canceled)
		require.Equal(t, over, context.Cause(bound))
		synctest.Wait()
		require.Empty(t, b.all)
	})
}
