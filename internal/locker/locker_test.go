// SPDX-License-Identifier: Apache-2.0

package locker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/locker"
)

// errFull is a refusal that passes.
var errFull = errors.New("out of memory")

// fake answers what is asked of a lock, one error after the other, and then leases that hold nothing.
type fake struct {
	refusals []error
	asked    []context.Context
}

func (f *fake) take(ctx context.Context) (hold.Lease, error) {
	f.asked = append(f.asked, ctx)
	if len(f.asked) <= len(f.refusals) {
		return hold.Lease{}, f.refusals[len(f.asked)-1]
	}
	return hold.Lease{}, nil
}

// panicOf answers the error that a function panics with, nil if it does not panic.
func panicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// P1: goroutines that share it exclude each other, whatever becomes of their leases.
func TestGoroutinesOfALockerExcludeEachOther(t *testing.T) {
	t.Parallel()
	k := locker.New(t.Context(), new(fake).take)
	count := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				k.Lock()
				count++
				k.Unlock()
			}
		})
	}
	all.Wait()
	require.Equal(t, 800, count)
}

func TestALockerPanicsForWhatDoesNotPassAndIsFreeAfterThat(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{
		errs.ErrClosed, errs.ErrBadName, errs.ErrBadOption, errs.ErrWrongKind, errs.ErrDenied, errs.ErrOldServer,
	} {
		f := &fake{refusals: []error{fmt.Errorf("a few words: %w", refusal)}}
		k := locker.New(t.Context(), f.take)
		require.ErrorIs(t, panicOf(k.Lock), refusal)
		require.ErrorIs(t, panicOf(k.Unlock), errs.ErrNotHeld)
		require.NoError(t, panicOf(k.Lock))
		require.NoError(t, panicOf(k.Unlock))
		require.ErrorIs(t, panicOf(k.Unlock), errs.ErrNotHeld)
	}
}

func TestALockerPanicsWhereItsContextHasEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &fake{refusals: []error{errFull, errFull}}
	require.ErrorIs(t, panicOf(locker.New(ctx, f.take).Lock), errFull)
	require.Len(t, f.asked, 1)
	f = &fake{refusals: []error{errFull}}
	require.ErrorIs(t, panicOf(locker.New(nil, f.take).Lock), errFull) //nolint:staticcheck // the nil context is what is tested
}

// P2: what Unlock cannot answer is told; a fake lease is one that holds nothing.
func TestALockerTellsWhatItsUnlockAnswers(t *testing.T) {
	t.Parallel()
	k := locker.New(t.Context(), new(fake).take)
	k.Lock()
	require.NoError(t, panicOf(k.Unlock), "nobody is told")
	var told []error
	k.OnLost(func(err error) {
		told = append(told, err)
		k.Lock() // it is free by then
		k.OnLost(nil)
		k.Unlock()
	})
	k.Lock()
	require.NoError(t, panicOf(k.Unlock))
	require.Len(t, told, 1)
	require.ErrorIs(t, told[0], errs.ErrNotHeld)
}
