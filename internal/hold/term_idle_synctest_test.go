// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/scripts"
)

// firstLife is what the server gives a hold at first.
const firstLife = 3 * time.Second

// keptConfig is that of a hold that may be idle.
func keptConfig() Config {
	return Config{Script: scripts.LockKeep, Life: life, Renewed: true, MayBeIdle: true}
}

// requested returns the lives that renewals have requested, and forgets them.
func (m *model) requested() []time.Duration {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	ttls := m.mu.lifetimes
	m.mu.lifetimes = nil
	return ttls
}

// untilNext sleeps until the next request has its reply, or has lost it.
func (m *model) untilNext() {
	for before := m.requests(); m.requests() == before; {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// P6: a renewal for the whole lease counts from its sending on, since its reply may be lost.
func TestHoldThatMayHaveItsLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o := f.startGiven(keptConfig(), firstLife)
		f.server.untilNext()
		f.server.set(func(int) fault { return fault{silent: true} })
		f.server.untilNext()
		require.Equal(f, []time.Duration{firstLife, life}, f.server.requested())
		require.Equal(f, firstLife, o.Given())
		require.False(f, o.Rest())
	})
}

// P6: the owner learns from each renewal whether the key is marked.
func TestOwnerLearnsOfTheMark(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *termFixture) {
		o, other := f.startGiven(keptConfig(), firstLife), f.start(renewed(time.Hour))
		f.server.untilNext()
		require.Equal(f, []bool{false}, o.marks())
		f.server.mark(o)
		f.server.mark(other)
		f.server.untilNext()
		require.Equal(f, []bool{false, true}, o.marks())
		o.Recheck() // a question learns it too
		f.server.untilNext()
		require.Equal(f, []bool{false, true, true}, o.marks())
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(f, other.marks(), "it may not be idle")
		require.Empty(f, o.causes())
		require.NoError(f, o.Stop(timers.Now()))
		require.False(f, o.Rest())
	})
}
