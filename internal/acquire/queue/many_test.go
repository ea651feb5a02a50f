// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// requests returns the locks with these names, to be acquired together.
func (u *user) requests(names ...string) []LockRequest {
	u.fixture.Helper()
	requests := make([]LockRequest, len(names))
	for i, name := range names {
		q := u.use(keysOf(u.fixture, name))
		u.fixture.Cleanup(func() { u.done(q) })
		requests[i] = LockRequest{q, lockRequest}
	}
	return requests
}

// acquireMany acquires locks, and checks how many it got.
func (u *user) acquireMany(n int, requests []LockRequest) []*Attempt {
	u.fixture.Helper()
	got, err := AcquireMany(u.fixture.Context(), scripts.LockAcquireMany, requests)
	require.NoError(u.fixture, err)
	require.Len(u.fixture, got, n)
	return got
}

// awaitUnheld waits until the session knows of no attempt and none of the locks is held.
func (u *user) awaitUnheld(requests []LockRequest) {
	u.fixture.Helper()
	await(u.fixture, "the end of everything", func() bool {
		_, attempts, _ := u.Len()
		for _, one := range requests {
			value, _ := u.fixture.server.MustDo(u.fixture, "GET", one.Queue.keys.Holder).(string)
			attempts += len(value) / 60 // with a hold
		}
		return attempts == 0
	})
}

// P1, P4: a grant that is older than a hold of the session is not delivered, and later locks are released as well.
func TestAcquireMany_OlderGrant_LeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.direct()
	requests := u.requests("a", "b")
	newer := &Attempt{q: u.q, grant: Grant{Stamp: 1 << 60}}
	newer.Begin(newLocalHoldSpy())
	u.acquireMany(0, requests)
	newer.end()
	u.awaitUnheld(requests)
}
