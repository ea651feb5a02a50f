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
type group struct {
	hold.Hold

	lock *Lock
	// parts has the leases of the members, the zero Lease for those that are not taken. Written by the call that takes
	// them, and only read once the hold began.
	parts []hold.Lease

	mu struct {
		sync.Mutex
		stop     context.CancelCauseFunc // ends the round that takes the members; nil for one that does not wait
		begun    bool                    // the hold did: a part that ends breaks it
		returned bool                    // or on their way
		lost     error                   // why the first part ended that did
	}
}

func newGroup(l *Lock) *group { return &group{lock: l, parts: make([]hold.Lease, len(l.members))} }

// add takes in the leases of the first members of party, and returns the rest of it.
func (g *group) add(party []one, leases []hold.Lease) []one {
	for i, lease := range leases {
		m := &party[i]
		g.parts[m.index] = lease
		lease.Watch(func(cause error) { g.ended(m, cause) })
	}
	return party[len(leases):]
}

// ended is called when the lease of m is over: released by this group, or lost, and then all are lost.
func (g *group) ended(m *one, cause error) {
	g.mu.Lock()
	if g.mu.returned || g.mu.lost != nil {
		g.mu.Unlock()
		return
	}
	g.mu.lost = &signalbox.OpError{Op: "hold", Name: m.place.Name, Err: acquire.Bare(cause)}
	lost, begun, stop := g.mu.lost, g.mu.begun, g.mu.stop
	g.mu.Unlock()
	switch {
	case begun:
		g.Term.Break(lost, false)
	case stop != nil:
		stop(errAgain)
	}
}

// begin makes the hold of the members, or returns which of them was lost meanwhile.
func (g *group) begin() (hold.Lease, error) {
	var token uint64
	for _, part := range g.parts {
		token = max(token, part.Token())
	}
	lease := g.BeginOf(g, g.lock.members[0].place.Session.Keeper, g.parts, token)
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
func (g *group) Vacated(now clock.Instant) error {
	if err := g.Term.Stop(now); err != nil {
		return err // a part was lost in the same instant; Lost sees to the rest
	}
	if !g.takeParts() {
		return nil
	}
	return g.returnParts()
}

// Named implements hold.Namer. An error of a member names that one.
func (g *group) Named(op string, err error) error {
	names := make([]string, len(g.lock.members))
	for i := range g.lock.members {
		names[i] = g.lock.members[i].place.Name
	}
	return explainFor(cmp.Or(op, "multilock"), strings.Join(names, ", "), err)
}

// Lost implements hold.Home: a part was lost, and the others go back.
func (g *group) Lost(renewal.End) { g.release() }

// release releases what was acquired, off the caller's path, and returns a channel that is closed when that
// is done. The goroutine ends when the servers have replied, or have not for a second; until then the members
// count as held in their sessions, whose Close waits for them.
func (g *group) release() (done <-chan struct{}) {
	ended := make(chan struct{})
	if !g.takeParts() {
		close(ended)
		return ended
	}
	go func() {
		defer close(ended)
		_ = g.returnParts() // no caller is left to get the error
	}()
	return ended
}

// releaseWithin is release, and waits for it as long as ctx lasts: a caller that tries again should not meet
// itself.
func (g *group) releaseWithin(ctx context.Context) {
	select {
	case <-g.release():
	case <-ctx.Done():
	}
}

// takeParts reports whether the caller is the one to give the parts back.
func (g *group) takeParts() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := !g.mu.returned
	g.mu.returned = true
	return first
}

// returnParts gives all parts back, those of one batch in one step and the batches beside each other, and returns what went
// wrong.
func (g *group) returnParts() error {
	results := make([]error, len(g.parts))
	var steps []func()
	batches := make(map[session.Batch]*batch)
	for i, part := range g.parts {
		home, err := leave(part)
		results[i] = err
		returner, together := home.(session.Returner)
		switch {
		case home == nil:
		case !together || returner.Batch() == session.Batch{}:
			steps = append(steps, func() { results[i] = home.Vacated(clock.Now()) })
		default:
			its := batches[returner.Batch()]
			if its == nil {
				its = &batch{homes: make([]session.Returner, 0, len(g.parts)), places: make([]int, 0, len(g.parts)), results: results}
				batches[returner.Batch()] = its
				steps = append(steps, its.release)
			}
			its.add(i, returner)
		}
	}
	atOnce(steps)
	for i, err := range results {
		results[i] = explainFor("unlock", g.lock.members[i].place.Name, err)
	}
	return errs.Join(results...)
}

func leave(part hold.Lease) (hold.Home, error) {
	if part == (hold.Lease{}) {
		return nil, nil //nolint:nilnil // it was never acquired: there is no home to notify, and no error
	}
	return part.Leave()
}

// batch is what is released in one step.
type batch struct {
	homes   []session.Returner
	places  []int // of homes in results
	results []error
}

func (l *batch) add(place int, home session.Returner) {
	l.homes, l.places = append(l.homes, home), append(l.places, place)
}

func (l *batch) release() {
	for i, err := range l.homes[0].Return(clock.Now(), l.homes[1:]) {
		l.results[l.places[i]] = err
	}
}

// atOnce takes the steps beside each other, and returns when all are done.
func atOnce(steps []func()) {
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
