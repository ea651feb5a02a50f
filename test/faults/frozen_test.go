// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P2: a holder whose server stops answering is told before its key can end.
func TestHolderOfAFrozenServerIsToldBeforeItsKeyEnds(t *testing.T) { //nolint:paralleltest // measures milliseconds
	for _, k := range kinds() { //nolint:paralleltest // as above
		t.Run(k.Name, func(t *testing.T) {
			w := newWorld(t)
			w.kind = k
			freezeAgain(t, w, 30, func() bool { return false })
		})
	}
}

func TestSoakHolderOfAFrozenServerIsToldBeforeItsKeyEnds(t *testing.T) { //nolint:paralleltest // measures milliseconds
	freezeAgain(t, newWorld(t), 100, locktest.Soak(t))
}

// freezeAgain freezes the server past the leases of n holders for as long as more says, and until most of the holders of
// one time were told by Done before their keys ended.
//
// What a lease says when it is looked at is exact, and freezeHolders holds each to that, every time. When
// the goroutine runs that waits for Done is up to the machine, which others keep busy as well:
// of the 8 ms that there are at the least, it may take all, and may stand still for longer. Where Done counts
// from the wrong instant, most are never in time.
func freezeAgain(t *testing.T, w *world, n int, more func() bool) {
	t.Helper()
	const attempts = 10
	inTime := false
	for times := 0; more() || !inTime && times < attempts; times++ {
		leads := freezeHolders(t, w, n)
		slices.Sort(leads)
		late, _ := slices.BinarySearch(leads, 1)
		t.Logf("%d holders: told by Done %v before the end of the key at the least, %v in the middle; %d were told late",
			len(leads), leads[0], leads[len(leads)/2], late)
		inTime = inTime || late <= len(leads)/2
	}
	require.True(t, inTime, "most were told late, each time")
}

// barrier lets requests through or holds them, and knows how many are on their way.
type barrier struct {
	sync.RWMutex
	passed sync.Mutex
	count  int
}

func (b *barrier) request(int, []string) {
	b.RLock()
	defer b.RUnlock()
	b.passed.Lock()
	defer b.passed.Unlock()
	b.count++
}

func (b *barrier) let() int {
	b.passed.Lock()
	defer b.passed.Unlock()
	return b.count
}

// holder is one lease, what its key's end is, and when it was told.
type holder struct {
	name  string
	lease signalbox.Lease
	ends  time.Time // of the key, on the server
	looks bool      // all the time, which ends a lease that is over, or never
	told  time.Time // by Done
	good  time.Time // before the last look that found the lease good
}

// freezeHolders freezes the server past the leases of n holders, and answers how long before
// the end of its key each of those was told who do not look, but wait for Done.
//
// For the keys' ends to be known, no renewal may be executed between the reading of them and
// the freezing: the proxy holds back what comes, and what had passed is waited for.
func freezeHolders(t *testing.T, w *world, n int) []time.Duration {
	t.Helper()
	proxy, gate := redistest.NewProxy(t, w.server.Addr()), new(barrier)
	proxy.SetMatch(locktest.Runs(scripts.HolderRenew, scripts.HoldsRenew))
	proxy.OnRequest(gate.request)
	link := link{proxy, patient(t, proxy)} // what has passed is answered, unless its connection is given up
	holders := make([]*holder, n)
	for i := range holders {
		holders[i] = w.lockFor(t, link, fmt.Sprintf("frozen/%d/%d", time.Now().UnixNano(), i), time.Second+time.Duration(i)*2*time.Second/time.Duration(n))
		holders[i].looks = i%2 == 0
	}
	redistest.Await(t, "renewals", func() bool { return link.proxy.Replies() >= 10 })

	gate.Lock()
	redistest.Await(t, "what had passed is answered", func() bool { return link.proxy.Replies() == gate.let() })
	for _, h := range holders {
		h.ends = w.view.MustHold(t, h.name).Ends
	}
	w.server.Freeze()
	gate.Unlock()
	// A machine that stood still for a second has ended some of them before.
	holders = slices.DeleteFunc(holders, func(h *holder) bool { return h.ends.IsZero() || h.lease.Err() != nil })
	var watchers sync.WaitGroup
	for _, h := range holders {
		watchers.Go(h.watch)
	}
	watchers.Wait()
	w.server.Thaw()

	var leads []time.Duration
	for _, h := range holders {
		if !h.looks {
			leads = append(leads, h.ends.Sub(h.told))
		}
		require.True(t, h.good.Before(h.ends), "%s looked good after its end", h.name)
		require.ErrorIs(t, h.lease.Err(), signalbox.ErrLost)
		require.ErrorIs(t, h.lease.Unlock(), signalbox.ErrLost)
	}
	require.NotEmpty(t, leads)
	redistest.Await(t, "nothing is held or settled", func() bool {
		_, held, err := w.view.Leaks()
		return err == nil && len(held) == 0 && locktest.Settling(link.session) == 0
	})
	link.proxy.Close()
	return leads
}

func (w *world) lockFor(t *testing.T, l link, name string, life time.Duration) *holder {
	t.Helper()
	lease, err := w.kind.New(l.session, name, signalbox.RenewedLease(life)).Lock(locktest.Context(t))
	require.NoError(t, err)
	return &holder{name: name, lease: lease}
}

// watch waits for Done.
func (h *holder) watch() {
	if !h.looks {
		<-h.lease.Done()
		h.told = time.Now()
		return
	}
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-h.lease.Done():
			h.told = time.Now()
			return
		case <-look.C:
		}
		before := time.Now()
		if h.lease.Err() == nil {
			h.good = before
		}
	}
}

// P4: whoever asks while the server is frozen goes in its own time, and what it asked takes no
// effect later. A connection that is just being made is waited for, by the client, for a second.
func TestWaiterOfAFrozenServerGoesInItsOwnTime(t *testing.T) {
	t.Parallel()
	each(t, waitFrozen)
}

func waitFrozen(t *testing.T, w *world) {
	t.Helper()
	w.server.Freeze()
	locktest.Together(t, 8, func(i int) error {
		ctx, cancel := shortly(t)
		defer cancel()
		begun := time.Now()
		_, err := w.kind.New(w.holder, fmt.Sprint("late/", i)).Lock(ctx)
		if !errors.Is(err, ctx.Err()) || time.Since(begun) > redistest.Patience/2 {
			return fmt.Errorf("%w after %v", err, time.Since(begun))
		}
		return nil
	})
	w.server.Thaw()
	redistest.Await(t, "everything is settled", func() bool { return locktest.Settling(w.holder) == 0 })
	immortal, held, err := w.view.Leaks()
	require.NoError(t, err)
	require.Empty(t, immortal)
	require.Empty(t, held)
}
