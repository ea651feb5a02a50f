// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// P5: a renewal whose reply is lost is repeated, and the lease goes on.
func TestLeaseOutlivesLostRenewals(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	each(t, loseRenewals)
}

func loseRenewals(t *testing.T, w *world) {
	t.Helper()
	// A connection that went silent is given up after two seconds: a lease that is to
	// outlive that is longer, by some seconds more for a busy machine.
	const life, more = 9 * time.Second, 2
	kinds := redistest.Kinds()
	links := w.links(t, len(kinds), locktest.Runs(scripts.HolderRenew, scripts.HoldsRenew))
	locktest.Together(t, len(kinds), func(i int) error {
		name, link := fmt.Sprint("renew/", kinds[i]), links[i]
		lease, err := w.kind.New(link.session, name, signalbox.RenewedLease(life)).Lock(locktest.Context(t))
		if err != nil {
			return err
		}
		armed := link.proxy.Arm(redistest.Fault{Kind: kinds[i], Delay: long})
		if !redistest.Became(life, armed.HasFired) {
			return errors.New("no renewal within a life")
		}
		before := link.proxy.Replies()
		if !redistest.Became(3*life, func() bool { return link.proxy.Replies() >= before+more }) {
			return fmt.Errorf("%v: renewals have ended: %w", kinds[i], lease.Err())
		}
		if err := w.valid(name, lease); err != nil {
			return fmt.Errorf("%v: %w", kinds[i], err)
		}
		if err := locktest.Confirmed(lease.Unlock()); err != nil {
			return fmt.Errorf("%v: %w", kinds[i], err)
		}
		return w.settled(name, link.session)
	})
	w.view.NoImmortals(t)
}

// P5: Unlock answers nil or ErrUnconfirmed, whatever became of its reply, and the lock is free
// soon after.
func TestReleaseWhoseReplyIsLostIsUnconfirmedAndDone(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	each(t, loseReleases)
}

func loseReleases(t *testing.T, w *world) {
	t.Helper()
	kinds := redistest.Kinds()
	links := w.links(t, len(kinds), locktest.Runs(w.kind.release))
	locktest.Together(t, len(kinds), func(i int) error {
		name, link := fmt.Sprint("release/", kinds[i]), links[i]
		lease, err := w.kind.New(link.session, name).Lock(locktest.Context(t))
		if err != nil {
			return err
		}
		armed := link.proxy.Arm(redistest.Fault{Kind: kinds[i], Delay: 3 * time.Second})
		if err := unlocked(kinds[i], lease.Unlock()); err != nil {
			return fmt.Errorf("%v: %w", kinds[i], err)
		}
		switch {
		case !errors.Is(lease.Err(), signalbox.ErrReleased):
			return fmt.Errorf("Err answers %w", lease.Err())
		case !errors.Is(lease.Unlock(), signalbox.ErrNotHeld):
			return errors.New("the second Unlock was no error")
		}
		if err := w.settled(name, link.session); err != nil {
			return fmt.Errorf("%v: %w", kinds[i], err)
		}
		if !redistest.Became(redistest.Patience, armed.HasFired) {
			return errors.New("not struck")
		}
		return nil
	})
	w.view.NoImmortals(t)
}

// unlocked says what is wrong with the answer of an Unlock that a fault struck, or nil.
func unlocked(kind redistest.Kind, err error) error {
	if kind == redistest.CutAfterReply {
		return locktest.Confirmed(err)
	}
	var unconfirmed *signalbox.UnconfirmedError
	switch {
	case !errors.As(err, &unconfirmed):
		return fmt.Errorf("unconfirmed, but Unlock answered: %w", err)
	case unconfirmed.KeyEnds.After(time.Now().Add(30 * time.Second)):
		return fmt.Errorf("the key would end at %v", unconfirmed.KeyEnds)
	}
	return nil
}

// P5: where the answer to "may this process pass the lock on further" is lost, the lock was
// given back or is given back then: nobody is told of a loss.
func TestYieldWhoseReplyIsLostIsNoLoss(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client gives a silent connection up after a second")
	w, kinds := newWorld(t), redistest.Kinds()
	links := w.links(t, len(kinds), locktest.Runs(scripts.ReentrantYield))
	faults := make([]*redistest.Armed, len(kinds))
	for i, kind := range kinds {
		faults[i] = links[i].proxy.Arm(redistest.Fault{Kind: kind, Delay: 3 * time.Second / 2})
	}
	const users = 4 // of each process; one of them is elsewhere, so that the process has to let go
	locktest.Together(t, users*len(kinds), func(i int) error {
		kind, link := kinds[i/users], links[i/users]
		armed := faults[i/users]
		lock := reentrant.New(link.session, fmt.Sprint("yield/", kind))
		if i%users == 0 {
			lock = reentrant.New(w.other, fmt.Sprint("yield/", kind))
		}
		for !armed.HasFired() {
			lease, err := lock.Lock(locktest.Context(t))
			if err != nil {
				return err
			}
			if err := locktest.Confirmed(lease.Unlock()); err != nil {
				return fmt.Errorf("%v: %w", kind, err)
			}
		}
		return nil
	})
	for i, kind := range kinds {
		require.NoError(t, w.settled(fmt.Sprint("yield/", kind), links[i].session))
	}
	w.view.NoImmortals(t)
}
