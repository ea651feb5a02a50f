// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P3: whoever has the one permit next has a greater token, wherever it is and however it came by it.
func TestTokensRiseAcrossPassesAndProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sems := []*semaphore.Semaphore{semaphore.New(newSession(t, server), "a", 1), semaphore.New(newSession(t, server), "a", 1)}
	var last, served atomic.Uint64
	var users sync.WaitGroup
	for n := range 16 {
		users.Go(func() {
			for served.Load() < 4_000 {
				lease, err := sems[n%2].Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				if before := last.Swap(lease.Token()); lease.Token() <= before {
					t.Errorf("%d after %d", lease.Token(), before)
				}
				served.Add(1)
				if err := locktest.Confirmed(lease.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
}

// P3: no two leases have one token, however many are had at once, and who comes new has a greater one than all.
func TestNoTwoLeasesHaveOneToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	sems := []*semaphore.Semaphore{semaphore.New(newSession(t, server), "a", 4), semaphore.New(newSession(t, server), "a", 4)}
	var users sync.WaitGroup
	tokens := make([][]uint64, 16)
	for n := range tokens {
		users.Go(func() {
			for range 250 {
				lease, err := sems[n%2].Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
					return
				}
				tokens[n] = append(tokens[n], lease.Token())
				if err := locktest.Confirmed(lease.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(tokens...)))
	require.Len(t, slices.Compact(slices.Clone(all)), len(all))
	lease := mustAcquire(t, sems[0], 4)
	require.Greater(t, lease.Token(), all[len(all)-1])
	require.NoError(t, lease.Unlock())
}
