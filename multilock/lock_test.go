// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"slices"
	"strings"
	"testing"
	"time"

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

// A lock that is given twice is taken once; to read and to write, it is taken to write. Package fair and package reentrant
// have the same lock. It would wait for itself otherwise.
func TestLockPassedTwiceCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	a, b := reentrant.New(s, "a"), rwlock.New(s, "b")
	twice := multilock.New(b.Reader(), a, fair.New(s, "a"), b, b.Reader())
	require.NoError(t, twice.Check())
	lease := mustLock(t, twice)
	tokens := multilock.Tokens(lease)
	require.Len(t, tokens, 5)
	require.Equal(t, tokens[1], tokens[2])
	require.Equal(t, tokens[0], tokens[3])
	require.NotEqual(t, tokens[0], tokens[1])
	_, err := rwlock.New(locktest.SteadySession(t, server), "b").TryRLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld, "a writer has it")
	require.NoError(t, lease.Unlock())
	require.Empty(t, held(t, []member{{a, a}, {b, b}}))
}

// P7: the members of one session that go in one script cost what one lock costs: a script to take them, and one to give
// them back.
func TestReentrantAndFairMembersGoInOneScript(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// One that listens asks when it begins to whether its holds are there still.
	s := locktest.SteadySession(t, server, signalbox.WithPolling())
	mine := inOrder(append(named(s, "a", "b", "c", "d", "e", "f"), member{fair.New(s, "g"), fair.New(s, "g")}, member{fair.New(s, "h"), fair.New(s, "h")}))
	require.NoError(t, mustLock(t, all(mine)).Unlock()) // the scripts are known, and the time
	var lease signalbox.Lease
	require.EqualValues(t, 1, scriptsRun(server, func() { lease = mustLock(t, all(mine)) }))
	require.Len(t, held(t, mine), 8)
	require.EqualValues(t, 1, scriptsRun(server, func() { require.NoError(t, lease.Unlock()) }))
	require.Empty(t, held(t, mine))
	require.EqualValues(t, 2, scriptsRun(server, func() {
		lease, err := all(mine).TryLock(locktest.Context(t))
		require.NoError(t, err)
		require.NoError(t, lease.Unlock())
	}))
}

// P6: a waiter for one member holds none behind it, at the server or inside the process: others of the
// process, and of another, acquire it meanwhile.
func TestWaiterForAMemberHoldsNoneBehindIt(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	mine := named(s, "a", "b", "c")
	theirs := mustLock(t, reentrant.New(other, nameOf(mine[0])))
	waiting := locktest.LaterWith(locktest.Context(t), all(mine).Lock)
	redistest.Await(t, "a waiter", func() bool { return locktest.Tickets(t, server, nameOf(mine[0])) == 1 })
	for _, from := range []*signalbox.Session{s, other} {
		for _, following := range mine[1:] {
			lease, err := reentrant.New(from, nameOf(following)).TryLock(locktest.Context(t))
			require.NoError(t, err)
			require.NoError(t, lease.Unlock())
		}
	}
	require.NoError(t, theirs.Unlock())
	got := locktest.MustHave(t, waiting)
	require.NoError(t, got.Unlock())
}

func TestWhatIsNoLockIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	good := reentrant.New(s, "a")
	for name, c := range map[string]struct {
		lock *multilock.Lock
		want error
	}{
		"no members":   {multilock.New(), signalbox.ErrBadOption},
		"a nil member": {multilock.New(good, nil), signalbox.ErrBadOption},
		"a bad name":   {multilock.New(good, reentrant.New(s, "")), signalbox.ErrBadName},
		"a bad option": {multilock.New(good, fair.New(s, "b", signalbox.WithFixedLease(1))), signalbox.ErrBadOption},
		"no session":   {multilock.New(good, reentrant.New(nil, "b")), signalbox.ErrBadOption},
	} {
		require.ErrorIs(t, c.lock.Check(), c.want, name)
		_, err := c.lock.Lock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		_, err = c.lock.TryLock(t.Context())
		require.ErrorIs(t, err, c.want, name)
		err = c.lock.Do(t.Context(), nil)
		require.ErrorIs(t, err, c.want, name)
	}
	_, err := multilock.New(good).Lock(nil) //nolint:staticcheck // what the test is about
	require.ErrorIs(t, err, signalbox.ErrBadOption)
}

// Order is that of the slots of the keys and then of the keys, however the members are given.
func TestOrderIsThatOfSlotsAndKeys(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	given := named(s, "a", "b", "c", "d", "{b}1", "{b}2")
	var want []string
	for _, l := range inOrder(given) {
		want = append(want, nameOf(l))
	}
	for range 2 {
		require.Equal(t, want, all(given).Order())
		slices.Reverse(given)
	}
	require.Len(t, all(append(given, given...)).Order(), len(given), "a name that is given twice is returned once")
	require.Nil(t, multilock.New().Order(), "no lock")

	// The order in Redisson's layout, in which the key is the name: 3300 is the slot of b, 7365 of
	// c, 15495 of a.
	var java []multilock.Member
	for _, name := range []string{"a", "b", "c"} {
		java = append(java, reentrant.New(s, name, signalbox.WithLayout(redisson.Layout())))
	}
	require.Equal(t, []string{"b", "c", "a"}, multilock.New(java...).Order())
}

// P10: if the right to read many keys at once is missing they are read one by one.
func TestWithoutTheRightToMgetMembersAreAcquired(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "few", "on", ">secret", "~*", "&*", "+@all", "-mget")
	s := locktest.SessionOf(t, locktest.ClientAs(t, server, "few", "secret"))
	mine := named(s, "a", "b", "c")
	for range 2 { // what is free, and what was released
		lease := mustLock(t, all(mine))
		require.Len(t, held(t, mine), 3)
		require.NoError(t, lease.Unlock())
		require.Empty(t, held(t, mine))
	}
}

// P6: a member that is free and has a waiter in its queue that is alive goes to that waiter: neither TryLock nor Lock overtakes
// it, and Lock holds none behind that member while it waits.
func TestMembersThatHaveAQueueAreNotOvertaken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mine := named(locktest.SteadySession(t, server), "a", "b", "c")
	name, key := nameOf(mine[1]), locktest.Key(nameOf(mine[1]))
	theirs := mustLock(t, reentrant.New(locktest.SteadySession(t, server), name, signalbox.WithFixedLease(time.Hour)))
	waiting := locktest.Enqueue(t.Context(), t, server, name, fair.New(locktest.SteadySession(t, server), name).Lock)
	value, _ := server.MustDo(t, "GET", key).(string)
	server.MustDo(t, "SET", key, value[:20]+strings.Repeat("-", 42)+"q", "PX", 600_000) // the key after a hold has ended by itself
	_, err := all(mine).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	require.ErrorContains(t, err, `"`+name+`"`)
	lease := locktest.MustHave(t, waiting)
	require.Equal(t, []int{1}, held(t, mine))
	require.ErrorIs(t, theirs.Unlock(), signalbox.ErrLost)

	many := locktest.Enqueue(t.Context(), t, server, name, all(mine).Lock)
	require.Equal(t, []int{0, 1}, held(t, mine))
	require.NoError(t, lease.Unlock())
	got := locktest.MustHave(t, many)
	require.Len(t, held(t, mine), 3)
	require.NoError(t, got.Unlock())
	require.Empty(t, held(t, mine))
}
