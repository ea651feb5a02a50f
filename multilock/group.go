// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/renewal"
	"github.com/signalbox-go/signalbox/internal/session"
)

// group is the members that one call acquired, from the first of them to the last one's release. It is the
// home of the hold that they make together.
//
// The first caller of takeParts releases the members: the call that failed, the Unlock, or the loss.
type memberHolds struct {
	hold.Hold

	lock *Lock
	// parts has the leases of the members, the zero Lease for those that are not taken. Written by the call that takes
	// them, and only read once the hold began.
	leases []hold.Lease

	mu struct {
		sync.Mutex
		stop     context.CancelCauseFunc // ends the round that takes the members; nil for one that does not wait
		begun    bool                    // the hold did: a part that ends breaks it
		returned bool                    // or on their way
		lost     error                   // why the first part ended that did
	}
}

func newMemberHolds(l *Lock) *memberHolds {
	return &memberHolds{lock: l, leases: make([]hold.Lease, len(l.members))}
}

// add takes in the leases of the first members of party, and returns the rest of it.
func (g *memberHolds) add(members []orderedMember, leases []hold.Lease) []orderedMember {
	for i, lease := range leases {
		m := &members[i]
		g.leases[m.index] = lease
		lease.OnEnd(func(cause error) { g.ended(m, cause) })
	}
	return members[len(leases):]
}

// ended is called when the lease of m is over: released by this group, or lost, and then all are lost.
func (g *memberHolds) ended(m *orderedMember, cause error) {
	g.mu.Lock()
	if g.mu.returned || g.mu.lost != nil {
		g.mu.Unlock()
		return
	}
	g.mu.lost = &signalbox.OpError{Op: "hold", Name: m.position.Name, Err: acquire.Bare(cause)}
	lost, begun, stop := g.mu.lost, g.mu.begun, g.mu.stop
	g.mu.Unlock()
	switch {
	case begun:
		g.Term.Break(lost, false)
	case stop != nil:
		stop(errNextRound)
	}
}

// begin makes the hold of the members, or returns which of them was lost meanwhile.
func (g *memberHolds) begin() (hold.Lease, error) {
	var token uint64
	for _, lease := range g.leases {
		token = max(token, lease.Token())
	}
	lease := g.BeginComposite(g, g.lock.members[0].position.Session.Keeper, g.leases, token)
	g.mu.Lock()
	lost := g.mu.lost
	g.mu.begun = lost == nil
	g.mu.Unlock()
	if lost != nil {
		return hold.Lease{}, lost
	}
	// The look at the clock ends a part that turns out to be over, and the hold with it.
	return lease, lease.Err()
}

// Vacated implements hold.Home: the lease was unlocked.
func (g *memberHolds) OnRelease(now clock.Instant) error {
	if err := g.Term.Stop(now); err != nil {
		return err // a part was lost in the same instant; Lost sees to the rest
	}
	if !g.claimRelease() {
		return nil
	}
	return g.releaseLeases()
}

// Named implements hold.Namer. An error of a member names that one.
func (g *memberHolds) Named(op string, err error) error {
	names := make([]string, len(g.lock.members))
	for i := range g.lock.members {
		names[i] = g.lock.members[i].position.Name
	}
	return explainFor(cmp.Or(op, "multilock"), strings.Join(names, ", "), err)
}

// Lost implements hold.Home: a part was lost, and the others go back.
func (g *memberHolds) OnLost(renewal.End) { g.release() }

// release releases what was acquired, off the caller's path, and returns a channel that is closed when that
// is done. The goroutine ends when the servers have replied, or have not for a second; until then the members
// count as held in their sessions, whose Close waits for them.
func (g *memberHolds) release() (done <-chan struct{}) {
	ended := make(chan struct{})
	if !g.claimRelease() {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		_ = g.releaseLeases() // no caller is left to get the error
	}()
	return ended
}

// releaseWithin is release, and waits for it as long as ctx lasts: a caller that tries again should not meet
// itself.
func (g *memberHolds) releaseWithin(ctx context.Context) {
	select {
	case <-g.release():
	case <-ctx.Done():
	}
}

// takeParts reports whether the caller is the one to give the parts back.
func (g *memberHolds) claimRelease() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.mu.returned
	g.mu.returned = true
	return first
}

// returnParts gives all parts back, those of one batch in one step and the batches beside each other, and returns what went
// wrong.
func (g *memberHolds) releaseLeases() error {
	results := make([]error, len(g.leases))
	var steps []func()
	batches := make(map[session.BatchKey]*releaseBatch)
	for i, lease := range g.leases {
		owner, err := leaveHold(lease)
		results[i] = err
		returner, together := owner.(session.ManyReleaser)
		switch {
		case owner == nil:
		case !together || returner.BatchKey() == session.BatchKey{}:
			steps = append(steps, func() { results[i] = owner.OnRelease(clock.Now()) })
		default:
			its := batches[returner.BatchKey()]
			if its == nil {
				its = &releaseBatch{holds: make([]session.ManyReleaser, 0, len(g.leases)), indexes: make([]int, 0, len(g.leases)), results: results}
				batches[returner.BatchKey()] = its
				steps = append(steps, its.release)
			}
			its.add(i, returner)
		}
	}
	concurrently(steps)
	for i, err := range results {
		results[i] = explainFor("unlock", g.lock.members[i].position.Name, err)
	}
	return errs.Join(results...)
}

func leaveHold(lease hold.Lease) (hold.Owner, error) {
	if lease == (hold.Lease{}) {
		return nil, nil //nolint:nilnil // it was never acquired: there is no home to notify, and no error
	}
	return lease.Leave()
}

// batch is what is released in one step.
type releaseBatch struct {
	holds   []session.ManyReleaser
	indexes []int // of homes in results
	results []error
}

func (l *releaseBatch) add(index int, owner session.ManyReleaser) {
	l.holds, l.indexes = append(l.holds, owner), append(l.indexes, index)
}

func (l *releaseBatch) release() {
	for i, err := range l.holds[0].ReleaseMany(clock.Now(), l.holds[1:]) {
		l.results[l.indexes[i]] = err
	}
}

// atOnce takes the steps beside each other, and returns when all are done.
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
