// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// lock is what reentrant.Lock, fair.Lock and Fake have in common.
type lock interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
	Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error
}

var (
	_ lock = (*reentrant.Lock)(nil)
	_ lock = (*fair.Lock)(nil)
	_ lock = (*signalboxtest.Fake)(nil)
)

// A Fake does what a lock on a Kit does, call by call: the same steps, the same errors in the same words.
func TestAFakeBehavesAsALock(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (l lock, hold, lose func() *signalboxtest.Holding){
		"kit": func(t *testing.T) (lock, func() *signalboxtest.Holding, func() *signalboxtest.Holding) {
			t.Helper()
			kit := signalboxtest.New(t)
			return reentrant.New(kit.Session(), "a"),
				func() *signalboxtest.Holding { return kit.Hold("a") }, func() *signalboxtest.Holding { return kit.Lose("a") }
		},
		"fake": func(t *testing.T) (lock, func() *signalboxtest.Holding, func() *signalboxtest.Holding) {
			t.Helper()
			fake := signalboxtest.NewFake(t, "a")
			return fake, fake.Hold, fake.Lose
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, hold, lose := open(t)
				kitHold(t, l)
				busy(t, l, hold)
				lost(t, l, lose)
			})
		})
	}
}

func kitHold(t *testing.T, l lock) {
	t.Helper()
	lease, err := l.Lock(t.Context())
	require.NoError(t, err)
	inside, err := l.TryLock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.Equal(t, lease.Token(), inside.Token())
	_, err = l.TryLock(lease.Bind(t.Context()))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, `signalbox: try lock "a": the lock is held`) // a session adds that it is by itself
	require.NoError(t, lease.Unlock())
	require.ErrorIs(t, lease.Err(), signalbox.ErrReleased)
	require.NoError(t, inside.Err())
	require.NoError(t, inside.Unlock())
	require.ErrorIs(t, inside.Unlock(), signalbox.ErrNotHeld)
	next, err := l.TryLock(t.Context())
	require.NoError(t, err)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())

	errWork := errors.New("the work failed")
	err = l.Do(t.Context(), func(ctx context.Context, _ signalbox.Lease) error {
		return errors.Join(errWork, l.Do(ctx, func(context.Context, signalbox.Lease) error { return nil }))
	})
	require.ErrorIs(t, err, errWork)
	require.ErrorIs(t, l.Do(t.Context(), nil), signalbox.ErrBadOption)
	require.Panics(t, func() {
		_ = l.Do(t.Context(), func(context.Context, signalbox.Lease) error { panic("the work") })
	})
	_, err = l.Lock(nil) //nolint:staticcheck // that is what is tested
	require.EqualError(t, err, `signalbox: lock "a": an option is not valid: the context is nil`)
}

func busy(t *testing.T, l lock, hold func() *signalboxtest.Holding) {
	t.Helper()
	other := hold()
	_, err := l.TryLock(t.Context())
	require.EqualError(t, err, `signalbox: try lock "a": the lock is held`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = l.Lock(ctx)
	require.EqualError(t, err, `signalbox: lock "a": the lock is held: context deadline exceeded`)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = l.Lock(ctx)
	require.EqualError(t, err, `signalbox: lock "a": context deadline exceeded`)

	token := make(chan uint64, 1)
	go func() {
		_ = l.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
			token <- lease.Token()
			return nil
		})
	}()
	synctest.Wait()
	require.Empty(t, token)
	other.Release()
	require.Greater(t, <-token, other.Token())
	synctest.Wait()
}

func lost(t *testing.T, l lock, lose func() *signalboxtest.Holding) {
	t.Helper()
	lease, err := l.Lock(t.Context())
	require.NoError(t, err)
	entered := lease.Enter(t.Context())
	other := lose()
	<-entered.Done()
	require.ErrorIs(t, context.Cause(entered), signalbox.ErrLost)
	require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
	require.Greater(t, other.Token(), lease.Token())
	_, err = l.TryLock(entered)
	require.EqualError(t, err, `signalbox: try lock "a": the lease was lost: the server no longer has it; it was ended by force, deleted or evicted`)
	_, err = l.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
	other.Release()
	other.Release()
	err = l.Do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
		require.Greater(t, lease.Token(), other.Token())
		lose().Release()
		<-ctx.Done()
		return nil
	})
	require.EqualError(t, err, `signalbox: unlock "a": the lease was lost: the server no longer has it; it was ended by force, deleted or evicted`)
}

// P1: goroutines that share a Fake exclude each other, whatever is lost meanwhile.
func TestAFakeExcludes(t *testing.T) {
	t.Parallel()
	fake := signalboxtest.NewFake(t, "a")
	var group sync.WaitGroup
	inside, last := 0, uint64(0)
	for range 8 {
		group.Go(func() {
			for range 500 {
				err := fake.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
					inside++ // the race detector sees two
					if lease.Token() <= last {
						t.Error("a token fell")
					}
					last = lease.Token()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	require.Equal(t, 4000, inside)
	require.False(t, fake.IsHeld())
}

func TestAFakeFails(t *testing.T) {
	t.Parallel()
	fake := signalboxtest.NewFake(t, "a")
	lease, err := fake.Lock(t.Context())
	require.NoError(t, err)
	fake.Fail(signalbox.ErrRefused)
	for _, call := range []func(context.Context) (signalbox.Lease, error){fake.Lock, fake.TryLock} {
		_, err := call(t.Context())
		require.ErrorIs(t, err, signalbox.ErrRefused)
		inner, err := call(lease.Enter(t.Context()))
		require.NoError(t, err)
		require.NoError(t, inner.Unlock())
	}
	require.NoError(t, lease.Unlock())
	fake.Fail(nil)
	require.NoError(t, fake.Do(t.Context(), func(context.Context, signalbox.Lease) error { return nil }))
}

func TestMistakesWithAFakeFailTheTest(t *testing.T) {
	t.Parallel()
	require.Equal(t, `signalboxtest: Lose of "a": no caller holds it`, fatal(func(f *fakeT) {
		signalboxtest.NewFake(f, "a").Lose()
	}))
	require.Equal(t, `signalboxtest: Lose of "a": no caller holds it`, fatal(func(f *fakeT) {
		fake := signalboxtest.NewFake(f, "a")
		fake.Hold()
		fake.Lose()
	}))
	require.Equal(t, `signalboxtest: Hold of "a": it is held already`, fatal(func(f *fakeT) {
		fake := signalboxtest.NewFake(f, "a")
		fake.Hold()
		fake.Hold()
	}))
}
