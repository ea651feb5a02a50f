// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// asks returns the locks with these names, to be acquired together.
func (u *user) asks(names ...string) []LockRequest {
	u.place.Helper()
	asked := make([]LockRequest, len(names))
	for i, name := range names {
		q := u.Use(keysOf(u.place, name))
		u.place.Cleanup(func() { u.Done(q) })
		asked[i] = LockRequest{q, wish}
	}
	return asked
}

// gathers acquires locks, and checks how many it got.
func (u *user) gathers(n int, asked []LockRequest) []*Attempt {
	u.place.Helper()
	got, err := AcquireMany(u.place.Context(), scripts.LockAcquireMany, asked)
	require.NoError(u.place, err)
	require.Len(u.place, got, n)
	return got
}

// scatters releases holds, which must be there.
func (u *user) scatters(all []*Attempt) {
	u.place.Helper()
	returned := make([]*LockRelease, len(all))
	for i, a := range all {
		returned[i] = &LockRelease{Attempt: a, ExpiresIn: lease}
	}
	ReleaseMany(u.place.Context(), scripts.LockReleaseMany, returned)
	for _, r := range returned {
		require.NoError(u.place, r.Err)
		require.True(u.place, r.WasHeld)
	}
}

// unheld waits until the session knows of no attempt and none of the locks is held.
func (u *user) unheld(asked []LockRequest) {
	u.place.Helper()
	await(u.place, "the end of everything", func() bool {
		_, attempts, _ := u.Len()
		for _, one := range asked {
			value, _ := u.place.server.MustDo(u.place, "GET", one.Queue.keys.Holder).(string)
			attempts += len(value) / 60 // with a hold
		}
		return attempts == 0
	})
}

// P7: free locks cost one script, and so does their release.
func TestGather_FreeLocks_OneScript(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.behind()
	asked := u.asks("a", "b", "c")
	require.True(t, u.session.Runner.CertainlySpansSlots(p.Context()))
	p.proxy.ResetCount()
	all := u.gathers(3, asked)
	require.Equal(t, 1, p.proxy.Requests())
	for i, a := range all {
		value, _ := p.server.MustDo(t, "GET", asked[i].Queue.keys.Holder).(string)
		require.Equal(t, a.ticket(), value[20:62])
		require.Equal(t, a.Grant().Stamp+wire.TokenBlock-1, a.Grant().Last)
	}
	u.scatters(all)
	require.Equal(t, 2, p.proxy.Requests())
	u.unheld(asked)
}

// Order: none behind the first that is held, or that has a queue.
func TestGather_HeldLock_StopsThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.plain(), p.plain()
	asked := u.asks("c", "a", "b")
	held := other.takes()
	all := u.gathers(1, asked)
	u.scatters(all)
	other.gives(held)
	u.unheld(asked)
}

// P6: a lock that has a queue by now is handed over.
func TestScatter_Waiter_IsGrantedTheLock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u, other := p.plain(), p.plain()
	asked := u.asks("a", "b")
	all := u.gathers(2, asked)
	waiting := other.waiting(t.Context(), 1)
	u.scatters(all)
	other.gives(within(t, "the lock", waiting).mustHave(t))
	u.unheld(asked)
	p.nothingLeft(u, other)
}

// P1, P4: a grant that is older than a hold of the session is not delivered, and those behind it are released as well.
func TestGather_OlderGrant_LeavesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	asked := u.asks("a", "b")
	newer := &Attempt{q: u.q, grant: Grant{Stamp: 1 << 60}}
	newer.Begin(newTenant())
	u.gathers(0, asked)
	newer.end()
	u.unheld(asked)
}

// T6: a release that names no token continues behind the whole block.
func TestScatter_UnknownToken_EndsTheBlock(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	u := p.plain()
	asked := u.asks("a", "b")
	all := u.gathers(2, asked)
	u.scatters(all)
	for i, a := range all {
		floor := p.server.MustDo(t, "GET", asked[i].Queue.keys.Holder)
		require.Equal(t, "sb1-"+a.Grant().Last.Text(), floor)
	}
	u.unheld(asked)
}
