// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// books is a store that refuses the token of a stale holder.
type books struct {
	greatest uint64
	shipped  []string
}

var errStale = errors.New("a later holder was here")

func (b *books) Book(_ context.Context, order string, token uint64) error {
	if token < b.greatest {
		return errStale
	}
	b.greatest = token
	b.shipped = append(b.shipped, order)
	return nil
}

func TestShipReleasesTheLock(t *testing.T) {
	t.Parallel()
	kit := signalboxtest.New(t)
	session := kit.Session()
	shop := NewShop(session)
	shop.Pack = func(context.Context, string) error {
		require.True(t, kit.HeldBy("order/42", session))
		return nil
	}
	require.NoError(t, shop.Ship(t.Context(), "42"))
	require.False(t, kit.IsHeld("order/42"))
}

func TestShipLeavesAnOrderToAnotherProcess(t *testing.T) {
	t.Parallel()
	kit := signalboxtest.New(t)
	shop := NewShop(kit.Session())
	other := kit.Hold("order/42")
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), ErrShipping)
	require.NoError(t, shop.Ship(t.Context(), "43"))
	other.Release()
	require.NoError(t, shop.Ship(t.Context(), "42"))
}

func TestShipStopsWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	kit := signalboxtest.New(t)
	shop, store := NewShop(kit.Session()), new(books)
	shop.Book = store.Book
	shop.Pack = func(ctx context.Context, _ string) error {
		kit.Lose("order/42") // in the middle of the work
		<-ctx.Done()         // Ship bound it to the lease
		return context.Cause(ctx)
	}
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), signalbox.ErrLost)
	require.Empty(t, store.shipped)
}

func TestALateShipmentIsRefused(t *testing.T) {
	t.Parallel()
	kit := signalboxtest.New(t)
	shop, store := NewShop(kit.Session()), new(books)
	shop.Book = store.Book
	shop.Pack = func(ctx context.Context, order string) error {
		kit.Expire("order/42") // the holder does not know
		other := kit.Hold("order/42")
		return store.Book(ctx, order, other.Token())
	}
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), errStale)
	require.Equal(t, []string{"42"}, store.shipped)
}

func TestShipStopsWhenItIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		session := kit.Session()
		shop := NewShop(session)
		shop.Pack = func(ctx context.Context, _ string) error {
			kit.Advance(10 * time.Minute)
			require.NoError(t, ctx.Err(), "the lease is renewed")
			kit.Partition(session)
			kit.Advance(30 * time.Second)
			return context.Cause(ctx)
		}
		require.ErrorIs(t, shop.Ship(t.Context(), "42"), signalbox.ErrLost)
	})
}

func TestAShipmentAfterAPauseIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		session := kit.Session()
		shop, other, store := NewShop(session), NewShop(kit.Session()), new(books)
		shop.Book, other.Book = store.Book, store.Book
		shop.Pack = func(context.Context, string) error {
			kit.Pause(session) // the process stands still
			kit.Advance(time.Minute)
			require.NoError(t, other.Ship(t.Context(), "42"))
			kit.Resume(session)
			return nil
		}
		require.ErrorIs(t, shop.Ship(t.Context(), "42"), errStale)
		require.Equal(t, []string{"42"}, store.shipped)
	})
}

func TestShipWithoutAServer(t *testing.T) {
	t.Parallel()
	lock := signalboxtest.NewFake(t, "order/42")
	shop := NewShop(nil)
	shop.Lock = func(string) Lock { return lock }
	require.NoError(t, shop.Ship(t.Context(), "42"))
	require.False(t, lock.IsHeld())

	other := lock.Hold()
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), ErrShipping)
	other.Release()

	lock.Fail(signalbox.ErrDenied)
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), signalbox.ErrDenied)
	lock.Fail(nil)

	shop.Pack = func(ctx context.Context, _ string) error {
		lock.Lose()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	require.ErrorIs(t, shop.Ship(t.Context(), "42"), signalbox.ErrLost)
}
