// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// memberHolds has the leases of the members that one call acquired, from the first acquire to the last release. It is the
// owner of the hold that they make together.
//
// The first caller of claimRelease releases the members: the call that failed, the Unlock, or the loss.
type memberHolds struct {
	hold.Hold

	lock *Lock
	// leases has the leases of the members, the zero Lease for a member that is not acquired. The call that acquires writes
	// them, and once the hold began they are only read.
	leases []hold.Lease

	mu struct {
		sync.Mutex
		stop     context.CancelCauseFunc // ends the round that acquires the members; nil for a call that does not wait
		begun    bool                    // the hold has begun: a member that ends breaks it
		released bool                    // the leases were released, or their release has begun
		lost     error                   // why the first member that ended did so
	}
}

func newMemberHolds(l *Lock) *memberHolds {
	return &memberHolds{lock: l, leases: make([]hold.Lease, len(l.members))}
}

// add records the leases of the first members, and returns the rest of the members.
func (h *memberHolds) add(members []orderedMember, leases []hold.Lease) []orderedMember {
	for i, lease := range leases {
		m := &members[i]
		h.leases[m.index] = lease
		lease.OnEnd(func(cause error) { h.ended(m, cause) })
	}
	return members[len(leases):]
}

// ended is called when the lease of m is over: released by this hold, or lost. If one is lost, all are lost.
func (h *memberHolds) ended(m *orderedMember, cause error) {
	h.mu.Lock()
	if h.mu.released || h.mu.lost != nil {
		h.mu.Unlock()
		return
	}
	h.mu.lost = &signalbox.OpError{Op: "hold", Name: m.position.Name, Err: acquire.WithoutOp(cause)}
	lost, begun, stop := h.mu.lost, h.mu.begun, h.mu.stop
	h.mu.Unlock()
	switch {
	case begun:
		h.Term.Break(lost, false)
	case stop != nil:
		stop(errNextRound)
	}
}

// begin makes the hold of the members, or returns the error of a member that was lost meanwhile.
func (h *memberHolds) begin() (hold.Lease, error) {
	var token uint64
	for _, lease := range h.leases {
		token = max(token, lease.Token())
	}
	lease := h.BeginComposite(h, h.lock.members[0].position.Session.Keeper, h.leases, token)
	h.mu.Lock()
	lost := h.mu.lost
	h.mu.begun = lost == nil
	h.mu.Unlock()
	if lost != nil {
		return hold.Lease{}, lost
	}
	// Err compares with the clock: it ends a lease that turns out to be over, and the hold with it.
	return lease, lease.Err()
}

// OnRelease implements hold.Owner: the lease was unlocked.
func (h *memberHolds) OnRelease(now timers.Instant) error {
	if err := h.Term.Stop(now); err != nil {
		return err // a member was lost in the same instant; OnLost releases the others
	}
	if !h.claimRelease() {
		return nil
	}
	return h.releaseLeases()
}

// Named implements hold.Namer. An error of a member names that one.
func (h *memberHolds) Named(op string, err error) error {
	names := make([]string, len(h.lock.members))
	for i := range h.lock.members {
		names[i] = h.lock.members[i].position.Name
	}
	return explainFor(cmp.Or(op, "multilock"), strings.Join(names, ", "), err)
}

// OnLost implements hold.Owner: a member was lost, and the others are released.
func (h *memberHolds) OnLost(hold.End) { h.release() }

// Key implements hold.Owner. The hold is nowhere at the server.
func (*memberHolds) Key() string { return "" }

// ID implements hold.Owner.
func (*memberHolds) ID() string { return "" }

// release releases what was acquired, off the caller's path, and returns a channel that is closed when that
// is done. The goroutine ends when the servers have replied, or have not for a second; until then the members
// count as held in their sessions, whose Close waits for them.
func (h *memberHolds) release() (done <-chan struct{}) {
	ended := make(chan struct{})
	if !h.claimRelease() {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		_ = h.releaseLeases() // no caller is left to get the error
	}()
	return ended
}

// releaseWithin is release, and waits for it as long as ctx lasts: a caller that tries again should not find the lock
// held by itself.
func (h *memberHolds) releaseWithin(ctx context.Context) {
	select {
	case <-h.release():
	case <-ctx.Done():
	}
}

// claimRelease reports whether the caller is the one to release the leases.
func (h *memberHolds) claimRelease() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := !h.mu.released
	h.mu.released = true
	return first
}

// releaseLeases releases all leases, those of a batch by one script and the batches concurrently, and returns the errors.
func (h *memberHolds) releaseLeases() error {
	results := make([]error, len(h.leases))
	var steps []func()
	batches := make(map[session.BatchKey]*releaseBatch)
	for i, lease := range h.leases {
		owner, err := leaveHold(lease)
		results[i] = err
		releaser, together := owner.(session.ManyReleaser)
		switch {
		case owner == nil:
		case !together || releaser.BatchKey() == session.BatchKey{}:
			steps = append(steps, func() { results[i] = owner.OnRelease(timers.Now()) })
		default:
			batch := batches[releaser.BatchKey()]
			if batch == nil {
				batch = &releaseBatch{
					holds: make([]session.ManyReleaser, 0, len(h.leases)), indexes: make([]int, 0, len(h.leases)), results: results,
				}
				batches[releaser.BatchKey()] = batch
				steps = append(steps, batch.release)
			}
			batch.add(i, releaser)
		}
	}
	concurrently(steps)
	for i, err := range results {
		results[i] = explainFor("unlock", h.lock.members[i].position.Name, err)
	}
	return errs.Join(results...)
}

func leaveHold(lease hold.Lease) (hold.Owner, error) {
	if lease == (hold.Lease{}) {
		return nil, nil //nolint:nilnil // it was never acquired: there is no owner to notify, and no error
	}
	return lease.Leave()
}

// releaseBatch is the holds that one script releases.
type releaseBatch struct {
	holds   []session.ManyReleaser
	indexes []int // the index in results of each hold
	results []error
}

func (b *releaseBatch) add(index int, owner session.ManyReleaser) {
	b.holds, b.indexes = append(b.holds, owner), append(b.indexes, index)
}

func (b *releaseBatch) release() {
	for i, err := range b.holds[0].ReleaseMany(timers.Now(), b.holds[1:]) {
		b.results[b.indexes[i]] = err
	}
}

// concurrently runs the steps at the same time, and returns when all have returned.
func concurrently(steps []func()) {
	if len(steps) == 0 {
		return
	}
	var others sync.WaitGroup
	for _, step := range steps[1:] {
		others.Go(step)
	}
	steps[0]()
	others.Wait()
}
