// SPDX-License-Identifier: Apache-2.0

package renewal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
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

// P6: a hold that no goroutine uses keeps its first life, however long it is kept, and so does one whose uses are short.
func TestIdleHoldKeepsItsFirstLife(t *testing.T) {
	t.Parallel()
	for _, lease := range []time.Duration{life, time.Hour} {
		bubble(t, func(f *fixture) {
			config := keptConfig()
			config.Life = lease
			o := f.startGiven(config, firstLife)
			require.True(f, o.Rest())
			time.Sleep(time.Minute)
			ttls := f.server.requested()
			require.Greater(f, len(ttls), 50, "it is renewed each second")
			for range 300 { // it is used for a fifth of the time, never for a second
				o.Use()
				time.Sleep(40 * time.Millisecond)
				require.True(f, o.Rest())
				time.Sleep(160 * time.Millisecond)
			}
			ttls = append(ttls, f.server.requested()...)
			for _, requested := range ttls {
				require.Equal(f, firstLife, requested)
			}
			require.Greater(f, len(ttls), 100)
			require.Empty(f, o.causes())
			require.LessOrEqual(f, time.Until(f.server.ends(o)), firstLife)
		})
	}
}

// P6: a hold is renewed for its whole lease only if one use has lasted since the renewal before. After that it is not kept.
func TestUsedHoldGetsItsLeaseWithTheSecondRenewal(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		o := f.startGiven(keptConfig(), firstLife)
		for range 2 {
			f.server.untilNext()
			require.Equal(f, []time.Duration{firstLife}, f.server.requested())
			require.True(f, o.Rest())
			o.Use() // of another goroutine
		}
		f.server.untilNext()
		require.Equal(f, []time.Duration{firstLife}, f.server.requested(), "the use began after the renewal before")
		f.server.untilNext()
		require.Equal(f, []time.Duration{life}, f.server.requested())
		require.False(f, o.Rest())
		o.Use()
		f.server.untilNext()
		require.Equal(f, []time.Duration{life}, f.server.requested())
	})
}

// P6: a hold that was used while it was renewed gets no more after that use.
func TestHoldThatWasUsedKeepsItsFirstLife(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		o := f.startGiven(keptConfig(), firstLife)
		for range 3 {
			f.server.untilNext()
			require.True(f, o.Rest())
			f.server.untilNext()
			o.Use()
			require.Equal(f, []time.Duration{firstLife, firstLife}, f.server.requested())
		}
		require.NoError(f, o.Stop(clock.Now()))
		require.False(f, o.Rest(), "it has ended")
	})
}

// P6: a renewal for the whole lease counts from its sending on, since its reply may be lost.
func TestHoldThatMayHaveItsLeaseIsNotKept(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
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
	bubble(t, func(f *fixture) {
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
		require.NoError(f, o.Stop(clock.Now()))
		require.False(f, o.Rest())
	})
}
