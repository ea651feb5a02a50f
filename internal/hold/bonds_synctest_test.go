// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
