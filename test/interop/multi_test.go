// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: a RedissonMultiLock that names the locks in the order of Order, and a multilock of the same
// ones, acquire all of them in turns: Java gets its share while Go acquires them again and again,
// and Go gets its own.
func TestAMultiLockOfJavaInOurOrderMakesProgress(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		const times = 100
		server := redistest.Start(t)
		p, s := newPeer(t, release, server), newSession(t, server)
		all := multilock.New(reentrant.New(s, "a"), reentrant.New(s, "b"), reentrant.New(s, "c"))
		order := strings.Join(all.Order(), ",")
		require.Equal(t, "b,c,a", order)
		ctx, cancel := context.WithTimeout(context.Background(), 6*redistest.Patience)
		defer cancel()
		java := p.later(p.send("a", "other-work", "multi", order, times), isTrue)
		for n := 0; n < times || len(java) == 0; n++ {
			lease, err := all.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
		}
		took(t, java)
		awaitNothing(t, server)
	})
}
