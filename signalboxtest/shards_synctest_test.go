// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/shards"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// A user's test of a group: members join, one is cut off, one stands still, one is ended by force, and one leaves.
func TestGroupOfShards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kit := signalboxtest.New(t)
		join := func() (*signalbox.Session, *shards.Member) {
			s := kit.Session()
			m, err := shards.New(s, "orders", shards.Count(8)).Join(t.Context())
			require.NoError(t, err)
			go func() { // ends when the member has left
				for c := range m.Changes() {
					if c.Kind != shards.Granted {
						_ = c.Shard.Release()
					}
				}
			}()
			return s, m
		}
		session, a := join()
		_, b := join()
		kit.Advance(10 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		kit.Partition(session) // as if its process was killed
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{0, 8}, []int{a.Owned(), b.Owned()})
		kit.Heal(session)
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		kit.Pause(session) // as if its process was stopped
		kit.Advance(30 * time.Second)
		require.Equal(t, 8, b.Owned())
		kit.Resume(session)
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})

		require.NoError(t, inspect.Break(t.Context(), kit.Session(), "orders")) // all members lose their shards, and join again
		kit.Advance(30 * time.Second)
		require.Equal(t, []int{4, 4}, []int{a.Owned(), b.Owned()})
		require.NoError(t, a.Leave(context.Background()))
		kit.Advance(10 * time.Second)
		require.Equal(t, 8, b.Owned())
	})
}
