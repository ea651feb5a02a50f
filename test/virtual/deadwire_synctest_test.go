// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: if the wire goes dead at any time, in either direction, the lease ends before the key does. It ends
// earlier by the allowance of a fiftieth at least, and by the time that the request was on its way.
func TestLeaseOfADeadWireEndsBeforeItsKey(t *testing.T) {
	t.Parallel()
	const phases = 12 // of a life, at which the wire goes dead
	bubble(t, func(f *fixture) {
		var holders sync.WaitGroup
		for i, life := range []time.Duration{100 * time.Millisecond, 333 * time.Millisecond, time.Second, 2500 * time.Millisecond, 30 * time.Second, 5 * time.Minute} {
			for phase := range phases {
				holders.Go(func() {
					f.hold(fmt.Sprint("dead/", i, "/", phase), life, 2*life*time.Duration(phase)/phases, phase%2 == 0)
				})
			}
		}
		holders.Wait()
	})
}

// hold acquires a lock, lets its wire go dead after some time, and requires that the lease ends in time.
func (f *fixture) hold(name string, life, after time.Duration, repliesOnly bool) {
	t := f.T
	s, link, closeAll := f.session(t, signalbox.WithDefaults(signalbox.WithRenewedLease(life)))
	defer closeAll()
	latency := min(life/100, 20*time.Millisecond)
	link.latency.Store(int64(latency))
	lease, err := reentrant.New(s, name).Lock(t.Context())
	if err != nil {
		t.Error(name, err)
		return
	}
	bound := lease.Bind(t.Context())
	time.Sleep(after)
	if lease.Err() != nil {
		t.Error(name, "was lost on a wire that was good")
	}
	link.swallowsReplies.Store(true)
	link.swallowsRequests.Store(!repliesOnly)
	<-lease.Done()
	left := f.left(name)
	if left < life/50+latency || lease.Err() == nil || bound.Err() == nil {
		t.Errorf("%s: ended %v before the end of the key; it says %v, its context %v", name, left, lease.Err(), bound.Err())
	}
}

// P2: a fixed lease and a WithMaxHold end when they say, and their keys after them.
func TestLeasesThatAreNotRenewedEndBeforeTheirKeys(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		s, _, closeAll := f.session(t)
		defer closeAll()
		for name, c := range map[string]struct {
			options []signalbox.LockOption
			lasts   time.Duration
			why     error
		}{
			"fixed":    {[]signalbox.LockOption{signalbox.WithFixedLease(10 * time.Second)}, 10 * time.Second, signalbox.ErrLost},
			"greatest": {[]signalbox.LockOption{signalbox.WithRenewedLease(3 * time.Second), signalbox.WithMaxHold(10 * time.Second)}, 10 * time.Second, signalbox.ErrMaxHold},
			"short":    {[]signalbox.LockOption{signalbox.WithMaxHold(time.Second)}, time.Second, signalbox.ErrMaxHold},
		} {
			begun := time.Now()
			lease, err := reentrant.New(s, name, c.options...).Lock(t.Context())
			require.NoError(t, err, name)
			<-lease.Done()
			require.ErrorIs(t, lease.Err(), c.why, name)
			require.Positive(t, f.left(name), name)
			require.WithinRange(t, time.Now(), begun.Add(c.lasts*9/10), begun.Add(c.lasts), name)
			time.Sleep(c.lasts / 10)
			require.Zero(t, f.left(name), name)
		}
	})
}
