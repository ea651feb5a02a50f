// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P3: the next holder of the one permit has a greater token, in any session and however it was granted.
func TestTokensRiseAcrossHandOversAndProcesses(t *testing.T) {
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
				if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
}

// P3: no two leases have the same token, however many are held at once, and a new one has a greater token
// than all.
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
				if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
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
