// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

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
