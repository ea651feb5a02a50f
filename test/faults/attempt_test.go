// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// attempt is one call of Lock or TryLock and what it answered.
type attempt struct {
	armed []*redistest.Armed
	lease signalbox.Lease
	err   error

	mu struct {
		sync.Mutex
		seen []string // the requests that counted
	}
}

func (a *attempt) struck() bool {
	for _, f := range a.armed {
		if !f.HasFired() {
			return false
		}
	}
	return true
}

// saw is the proxy's hook.
func (a *attempt) saw(req []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.seen = append(a.mu.seen, locktest.Names(req))
}

// requests answers what was seen so far.
func (a *attempt) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.mu.seen)
}

// acquire makes the call, with the faults of the trial, beside a holder who gives the lock
// back in time.
func (w *world) acquire(name string, tr trial, proxy *redistest.Proxy, victim *signalbox.Session) (*attempt, error) {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	defer cancel()
	a := new(attempt)
	proxy.OnRequest(func(k int, req []string) {
		a.saw(req)
		if tr.cancel == before && k == tr.step {
			cancel()
		}
	})
	if cut := tr.scenario.cut; cut > 0 {
		proxy.Arm(redistest.Fault{Kind: redistest.CutAfterReply, At: cut})
	}
	proxy.DropPushes(tr.scenario.deaf)
	for _, f := range tr.faults {
		a.armed = append(a.armed, proxy.Arm(f))
	}
	var held signalbox.Lease
	if tr.scenario.held {
		var err error
		if held, err = tr.kind.rival.New(w.holder, name).Lock(ctx); err != nil {
			return nil, err
		}
	}
	lock, done := tr.kind.New(victim, name, signalbox.RenewedLease(tr.life)), make(chan struct{})
	var watchers sync.WaitGroup
	if tr.cancel == atFault {
		watchers.Go(func() { a.cancelAtFault(cancel, done) })
	}
	go func() {
		defer close(done)
		if tr.scenario.try {
			a.lease, a.err = lock.TryLock(ctx)
		} else {
			a.lease, a.err = lock.Lock(ctx)
		}
	}()
	var err error
	if tr.scenario.held {
		err = giveBack(held, tr.scenario, proxy, done)
	}
	<-done // ctx bounds the call; what it ignores the time limit of the tests finds
	watchers.Wait()
	return a, err
}

func (a *attempt) cancelAtFault(cancel context.CancelFunc, done <-chan struct{}) {
	select {
	case <-a.armed[0].Fired():
		cancel()
	case <-done:
	}
}

// giveBack unlocks once a waiter has made the step that it takes to wait, or will not; where nobody
// waits, once the call has ended.
func giveBack(held signalbox.Lease, s scenario, proxy *redistest.Proxy, done <-chan struct{}) error {
	redistest.Became(settled/2, func() bool {
		select {
		case <-done:
			return true
		default:
			return !s.try && proxy.Replies() >= s.after
		}
	})
	return locktest.Confirmed(held.Unlock())
}

// judge says what is wrong with the answer of the call, or nil.
func (a *attempt) judge(tr trial) error {
	switch {
	case a.err == nil && tr.scenario.try && tr.scenario.held:
		return errors.New("it got a lock that was held")
	case a.err == nil, tr.cancel != never && errors.Is(a.err, context.Canceled):
		return nil
	case tr.scenario.try && tr.scenario.held && errors.Is(a.err, signalbox.ErrHeld):
		return nil
	case tr.scenario.try && len(tr.faults) > 0 && !errors.Is(a.err, signalbox.ErrHeld):
		return nil // one round trip was asked for, and it failed
	}
	return fmt.Errorf("answered: %w", a.err)
}
