// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P1, P4: several locks as one, some of which Java shares: all of them or none, whichever of them Java has; and Java waits for the one that it
// wants.
func TestSeveralLocksAsOneAreSharedWithJava(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p, g := newPeer(t, release, server), newGoSide(t, server)
		all := multilock.New(
			g.lock("a"), g.lock("b"), g.lock("c"), fair.New(g.session, "f"), rwlock.New(g.session, "y").Reader(),
			reentrant.New(g.session, "z", signalbox.WithLayout(redisson.Layout(redisson.Fenced))), reentrant.New(g.session, "own", signalbox.WithLayout(signalbox.Native())),
		)
		verbs := map[string][2]string{ // what takes a lock in Java, and what gives it back
			"a": {"lock", "unlock"}, "b": {"lock", "unlock"}, "c": {"lock", "unlock"}, "f": {"fair-lock", "fair-unlock"}, "z": {"fence", "unlock"},
		}
		for name, verb := range verbs {
			p.must(t, "a", verb[0], name, 3_600_000)
			before := keys(t, server)
			_, err := all.TryLock(locktest.Context(t))
			require.ErrorIs(t, err, signalbox.ErrHeld)
			require.Subset(t, append(before, locktest.Key("own"), "redisson_lock_token:{z}"), keys(t, server), "none of the others is held, or only a floor and a counter are left")
			p.must(t, "a", verb[1], name)

			lease, err := all.Lock(locktest.Context(t))
			require.NoError(t, err)
			waiting := p.send("a", verb[0], name, 3_600_000)
			require.Equal(t, "true", p.must(t, "b", "rw.try", "y", reading, 0, 1000), "readers are beside each other")
			require.Equal(t, "false", p.must(t, "c", "rw.try", "y", writing, 0, 1000))
			p.must(t, "b", "rw.unlock", "y", reading)
			require.Empty(t, waiting)
			require.NoError(t, lease.Unlock())
			p.take(t, waiting)
			p.must(t, "a", verb[1], name)
		}
	})
}
