// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P6, order: a writer that gives up opens the door: readers that wait for it, and those who come, are beside the reader that
// has the lock. The leaving itself lets them in, all of them: whenever somebody looks at the line, all stand in it or nobody.
func TestAWriterThatGivesUpOpensTheDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "door"
	inside := takes(t, locktest.Reader(), w.holder, name)
	ctx, giveUp := context.WithCancel(long(t))
	writer := begins(ctx, rwlock.New(w.other, name))
	w.waiting(t, name, 1)
	_, err := locktest.Reader().New(locktest.Session(t, w.server), name).TryLock(locktest.Context(t))
	require.ErrorIs(t, err, signalbox.ErrHeld, "the door is shut")
	var waiting []<-chan result
	for n := range 3 {
		waiting = append(waiting, w.asks(t, locktest.Reader(), locktest.Session(t, w.server), name, n+2))
	}
	giveUp()
	require.ErrorIs(t, (<-writer).err, context.Canceled)
	redistest.Await(t, "the door opens", func() bool {
		stand := w.view.Waiting(name)
		require.Contains(t, []int{0, 1 + len(waiting)}, stand, "the writer is gone, and some wait on")
		return stand == 0
	})
	for _, got := range waiting {
		lease := gets(t, got, bound)
		require.NoError(t, inside.Err(), "the first is inside still")
		require.NoError(t, lease.Unlock())
	}
	late := takes(t, locktest.Reader(), locktest.Session(t, w.server), name)
	require.NoError(t, late.Unlock())
	require.NoError(t, inside.Unlock())
	w.nothingLeft(t)
}

// P6, order: so does one whose process dies, when it counts as dead: readers come in beside the one that has the lock.
func TestAWriterThatIsKilledInLineOpensTheDoor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "killed"
	inside := takes(t, locktest.Reader(), w.holder, name)
	p := w.start(t, "side", locktest.Writer(), name, 30*time.Second)
	w.waiting(t, name, 1)
	got := w.asks(t, locktest.Reader(), w.other, name, 2)
	p.Kill()
	killed := w.view.Now(t)
	lease := gets(t, got, limit)
	took := granted(lease).Time().Sub(killed)
	t.Logf("the reader was let in %v after the writer was killed", took.Round(time.Millisecond))
	require.Less(t, took, bound)
	require.NoError(t, inside.Err(), "the first is inside still")
	late := takes(t, locktest.Reader(), locktest.Session(t, w.server), name)
	for _, l := range []signalbox.Lease{late, lease, inside} {
		require.NoError(t, l.Unlock())
	}
	// The dead one stands in line until it was dead for ten seconds, and is in nobody's way.
	require.NoError(t, takes(t, locktest.Writer(), w.other, name).Unlock())
	w.view.NoImmortals(t)
}

// P6: a reader that crashed keeps a writer out for its own lease, also where others renew theirs meanwhile, and no longer.
func TestACrashedReaderDelaysAWriterByItsOwnLease(t *testing.T) {
	t.Parallel()
	for name, renewing := range map[string]bool{"Alone": false, "BesideOthersWhoRenew": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const life = 3 * time.Second
			w := newWorld(t)
			p := w.start(t, "side", locktest.Reader(), name, life)
			says(t, p, "began")
			says(t, p, "held")
			p.Freeze() // so that what its hold ends at stays
			ends := w.view.MustHold(t, name).Ends
			var beside signalbox.Lease
			if renewing {
				beside = takes(t, locktest.Reader(), w.holder, name, signalbox.RenewedLease(2*life)) // renewed before the dead one's ends
			}
			p.Kill()
			got := begins(long(t), rwlock.New(w.other, name))
			if renewing {
				redistest.AwaitFor(t, limit, "the end of the dead one's hold", func() bool { return w.view.MustHold(t, name).Holds == 1 })
				require.NoError(t, beside.Unlock())
			}
			lease := gets(t, got, limit)
			took := granted(lease).Time().Sub(ends)
			t.Logf("the writer was let in %v after the end of the dead reader's hold", took.Round(time.Millisecond))
			require.GreaterOrEqual(t, took, -time.Millisecond)
			require.Less(t, took, bound)
			require.NoError(t, lease.Unlock())
			w.nothingLeft(t)
		})
	}
}

// P6: a writer that dies with the lock keeps the others out for its lease; then all readers that wait come in together.
func TestReadersComeInTogetherWhenADeadWritersHoldEnds(t *testing.T) {
	t.Parallel()
	const life, name = 5 * time.Second, "dead"
	w := newWorld(t)
	p := w.start(t, "side", locktest.Writer(), name, life)
	says(t, p, "began")
	says(t, p, "held")
	p.Freeze()
	ends := w.view.MustHold(t, name).Ends
	sessions := []*signalbox.Session{w.holder, w.other, locktest.Session(t, w.server)}
	var waiting []<-chan result
	for _, s := range sessions {
		waiting = append(waiting, begins(long(t), locktest.Reader().New(s, name)))
	}
	p.Kill()
	var leases []signalbox.Lease
	for _, got := range waiting {
		lease := gets(t, got, limit)
		require.Less(t, granted(lease).Time().Sub(ends), bound)
		require.GreaterOrEqual(t, granted(lease).Time().Sub(ends), -time.Millisecond)
		leases = append(leases, lease) // and it stays inside, so that the others come in beside it
	}
	for _, lease := range leases {
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock())
	}
	w.nothingLeft(t)
}

// P2: a holder of either side that is stopped past its lease is told at its first look, and the next one is left alone.
func TestAHolderThatWasStoppedIsToldAndTheNextIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, side := range []locktest.Primitive{locktest.Writer(), locktest.Reader()} {
		t.Run(side.Name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.start(t, "side", side, side.Name, time.Second)
			says(t, p, "began")
			says(t, p, "held")
			p.Freeze()
			next := gets(t, begins(long(t), rwlock.New(w.other, side.Name)), limit)
			p.Send("unlock")
			p.Thaw()
			says(t, p, "unlocked "+signalbox.ErrLost.Error())
			require.NoError(t, next.Err())
			require.NoError(t, next.Unlock())
			w.nothingLeft(t)
		})
	}
}

// P1, order: a writer that becomes a reader lets those in who wait to read, past a writer that waits, and that one comes in
// when all of them are done.
func TestADowngradedWriterIsAReaderLikeOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "down"
	lock := rwlock.New(w.holder, name)
	held, err := lock.Lock(locktest.Context(t))
	require.NoError(t, err)
	writer := w.asks(t, locktest.Writer(), w.other, name, 1)
	reader := w.asks(t, locktest.Reader(), locktest.Session(t, w.server), name, 2)
	require.NoError(t, lock.Downgrade(locktest.Context(t), held))
	beside := gets(t, reader, bound)
	require.NoError(t, held.Err())
	require.Greater(t, beside.Token(), held.Token())
	late := w.asks(t, locktest.Reader(), locktest.Session(t, w.server), name, 2)
	require.NoError(t, lock.Downgrade(locktest.Context(t), held), "it is a reader already")
	require.Equal(t, 2, w.view.Waiting(name), "a second time it lets nobody in past the writer")
	require.NoError(t, held.Unlock())
	require.Empty(t, writer)
	require.NoError(t, beside.Unlock())
	next := gets(t, writer, bound)
	require.Greater(t, next.Token(), beside.Token())
	require.NoError(t, next.Unlock())
	require.NoError(t, gets(t, late, bound).Unlock())
	w.nothingLeft(t)
}
