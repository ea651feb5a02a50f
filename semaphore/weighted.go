// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
)

// Weighted is a semaphore with the methods of golang.org/x/sync/semaphore.Weighted, for code that uses one.
// It counts what was acquired through it, and every goroutine that shares it may release that. Permits that
// were acquired elsewhere cannot be released through it. It is safe for concurrent use. The method Weighted
// of a Semaphore makes one; the zero Weighted is of no use.
type Weighted struct {
	sem *Semaphore
	ctx context.Context //nolint:containedctx // TryAcquire has no context

	mu struct {
		sync.Mutex
		leases  map[int64][]permitLease // the leases by their permits; no slice is empty
		held    int64                   // the permits of all leases, including the pending ones
		pending int64                   // the permits that are kept of leases that are being split
		onLost  func(error)
	}
	splitDone sync.Cond // signals that pending has become less
}

// permitLease is the lease of permits that were acquired at once, or of the rest of them.
type permitLease struct {
	permits int64
	lease   hold.Lease
	lost    error // why there is no lease
}

// capacityPause is how long an Acquire that exceeds the capacity waits before it asks again.
const capacityPause = time.Second

// Weighted returns the semaphore with the methods of golang.org/x/sync/semaphore. ctx bounds
// TryAcquire, which has no context of its own.
func (s *Semaphore) Weighted(ctx context.Context) *Weighted {
	w := &Weighted{sem: s, ctx: ctx}
	w.splitDone.L = &w.mu
	w.mu.leases = make(map[int64][]permitLease)
	return w
}

// orZero returns w, or the zero Weighted if w is nil.
func (w *Weighted) orZero() *Weighted {
	if w == nil {
		return new(Weighted)
	}
	return w
}

// OnLost sets the function that is called if permits were lost while they were held, or if their
// release was not confirmed. It runs on the goroutine that releases. By default, and after
// OnLost(nil), no function is called.
func (w *Weighted) OnLost(lost func(error)) {
	w = w.orZero()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.onLost = lost
}

// Acquire acquires n permits, and blocks until it has them or ctx ends; see Semaphore.Acquire. If n
// exceeds the capacity, it waits until ctx ends or SetCapacity makes room, and delays no other waiter.
// Acquire of 0 permits returns at once.
func (w *Weighted) Acquire(ctx context.Context, n int64) error {
	w = w.orZero()
	for {
		lease, err := w.acquirePermits(ctx, n, w.sem.acquire)
		if !errors.Is(err, errs.ErrCapacity) {
			return w.record(lease, n, "acquire", err)
		}
		pause := time.NewTimer(capacityPause) // not the session's: Close would stop it, and is to be noticed
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return w.record(lease, n, "acquire", errs.Join(errs.Ended(ctx), err))
		}
	}
}

// TryAcquire acquires n permits if they are free and the queue is empty; see Semaphore.TryAcquire. It
// returns false otherwise, and after every error. Acquire returns the error.
func (w *Weighted) TryAcquire(n int64) bool {
	w = w.orZero()
	lease, err := w.acquirePermits(w.ctx, n, w.sem.tryAcquire)
	return w.record(lease, n, "try acquire", err) == nil
}

// acquirePermits acquires n permits by acquire.
func (w *Weighted) acquirePermits(ctx context.Context, n int64, acquire func(context.Context, int) (hold.Lease, error)) (hold.Lease, error) {
	switch {
	case n == 0:
		return hold.Lease{}, w.sem.root().Ready(ctx)
	case n < 0: // before it is an int, which may be shorter
		return hold.Lease{}, cmp.Or(w.sem.root().Ready(ctx), fmt.Errorf("%w: %d permits: it must not be negative", errs.ErrBadOption, n))
	case n > MaxPermits:
		return hold.Lease{}, cmp.Or(w.sem.root().Ready(ctx), fmt.Errorf("%w: no semaphore has %d permits", errs.ErrCapacity, n))
	}
	return acquire(ctx, int(n))
}

// record keeps a lease that was acquired.
func (w *Weighted) record(lease hold.Lease, n int64, op string, err error) error {
	if err != nil || n == 0 {
		return w.sem.root().Explain(op, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.held += n
	w.pushLocked(permitLease{permits: n, lease: lease})
	return nil
}

// Release releases n permits, whether they were acquired at once or not. It panics if fewer are held
// through w. It returns no error: OnLost is called if permits were lost, or if the server did not
// confirm their release.
func (w *Weighted) Release(n int64) {
	w = w.orZero()
	whole, partial, onLost := w.pickLeases(n)
	for _, p := range whole {
		report(onLost, p.release(w.sem))
	}
	if partial.kept > 0 {
		report(onLost, w.split(partial))
	}
}

func report(onLost func(error), err error) {
	if err != nil && onLost != nil {
		onLost(err)
	}
}

func (p permitLease) release(s *Semaphore) error {
	err := p.lost
	if err == nil {
		err = p.lease.Unlock()
	}
	return s.single.Explain("release", err)
}

// splitLease is a lease of which some permits are kept.
type splitLease struct {
	permitLease

	kept int64
}

// pickLeases removes leases that have n permits together. If no leases do, partial is a lease to be split.
func (w *Weighted) pickLeases(n int64) (whole []permitLease, partial splitLease, onLost func(error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n <= w.mu.held && n > w.mu.held-w.mu.pending {
		w.splitDone.Wait() // the missing permits belong to a lease that is being split
	}
	if n < 0 || n > w.mu.held {
		panic(fmt.Errorf("signalbox: release of %d permits, while %d are held: %w", n, w.mu.held, errs.ErrNotHeld))
	}
	w.mu.held -= n
	for _, permits := range w.sizesUpToLocked(n) {
		for n >= permits && len(w.mu.leases[permits]) > 0 {
			whole = append(whole, w.popLocked(permits))
			n -= permits
		}
	}
	if n > 0 {
		// There is a larger one: each lease that is left has more than n permits, and together they have no fewer.
		larger := slices.Min(slices.Collect(maps.Keys(w.mu.leases)))
		partial = splitLease{w.popLocked(larger), larger - n}
		w.mu.pending += partial.kept
	}
	return whole, partial, w.mu.onLost
}

// sizesUpToLocked returns the sizes of the leases with at most n permits: n alone if there is such a lease, else all,
// the largest first.
func (w *Weighted) sizesUpToLocked(n int64) []int64 {
	if len(w.mu.leases[n]) > 0 {
		return []int64{n}
	}
	sizes := slices.Sorted(maps.Keys(w.mu.leases))
	slices.Reverse(sizes)
	return slices.DeleteFunc(sizes, func(permits int64) bool { return permits > n })
}

func (w *Weighted) popLocked(permits int64) permitLease {
	leases := w.mu.leases[permits]
	last := len(leases) - 1
	p := leases[last]
	if w.mu.leases[permits] = leases[:last]; last == 0 {
		delete(w.mu.leases, permits)
	}
	return p
}

func (w *Weighted) pushLocked(p permitLease) {
	w.mu.leases[p.permits] = append(w.mu.leases[p.permits], p)
}

// split releases the permits of a lease that are not kept.
func (w *Weighted) split(d splitLease) error {
	kept := permitLease{permits: d.kept, lost: d.lost}
	if kept.lost == nil {
		kept.lease, kept.lost = w.sem.newAcquirer(int(d.kept)).Swap(d.lease, w.sem.table.Split)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.pending -= d.kept
	w.pushLocked(kept)
	w.splitDone.Broadcast()
	return w.sem.root().Explain("release", kept.lost)
}
