// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/scripts"
)

// doResult is what a Do returned, and when.
type doResult struct {
	value string
	ran   bool
	err   error
	at    time.Time
}

// doOnce calls Do with a function that takes that long.
func doOnce(ctx context.Context, o *once.Once, value string, work time.Duration) doResult {
	got, ran, err := o.Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
		select {
		case <-time.After(work):
			return []byte(value), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	})
	return doResult{string(got), ran, err, time.Now()}
}

// laterOnce is doOnce on another goroutine. It returns when that waits or runs.
func laterOnce(ctx context.Context, o *once.Once, value string, work time.Duration) <-chan doResult {
	returned := make(chan doResult, 1)
	go func() { returned <- doOnce(ctx, o, value, work) }()
	synctest.Wait()
	return returned
}

// P6: callers of all sessions have the outcome as soon as it is stored, and, if no message arrives, a
// second later for each session ahead.
func TestOnceWaitersHaveTheOutcomeAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // one bubble after the other
		unsubscribed bool
		bound        time.Duration
	}{"Notified": {false, 10 * time.Millisecond}, "Lost": {true, 4 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				runner, _, closeRunner := f.session(f.T)
				defer closeRunner()
				running := laterOnce(f.Context(), once.New(runner, "a"), "x", 5*time.Second)
				var waiting []<-chan doResult
				sessions := []*signalbox.Session{runner}
				for range 4 {
					s, link, closeAll := f.session(f.T)
					defer closeAll()
					sessions = append(sessions, s)
					link.losesMessages.Store(c.unsubscribed)
					for range 3 {
						waiting = append(waiting, laterOnce(f.Context(), once.New(s, "a"), "y", 0))
					}
				}
				stored := <-running
				require.Equal(f, doResult{"x", true, nil, stored.at}, stored)
				for _, one := range waiting {
					r := <-one
					require.Equal(f, doResult{"x", false, nil, r.at}, r)
					require.LessOrEqual(f, r.at.Sub(stored.at), c.bound)
				}
				time.Sleep(time.Minute)
				requireIdle(f.T, sessions...)
				for _, s := range sessions {
					require.Zero(f, locktest.Channels(s))
				}
				require.Zero(f, f.left("a"))
			})
		})
	}
}

// O1: if the runner vanishes, the next one runs when the lease of the claim ends, long before the
// outcome would; if its function fails, at once.
func TestOnceRunsAgainWhenTheRunnerVanishes(t *testing.T) {
	t.Parallel()
	const lease = 10 * time.Second
	bubble(t, func(f *fixture) {
		options := []signalbox.LockOption{signalbox.WithRenewedLease(lease), once.Keep(30 * 24 * time.Hour)}
		runner, link, closeRunner := f.session(f.T)
		defer closeRunner()
		running := laterOnce(f.Context(), once.New(runner, "a", options...), "x", time.Hour)
		next, _, closeNext := f.session(f.T)
		defer closeNext()
		waiting := laterOnce(f.Context(), once.New(next, "a", options...), "y", time.Second)
		time.Sleep(time.Minute)
		link.goSilent()
		died := time.Now()
		r := <-waiting
		require.Equal(f, doResult{"y", true, nil, r.at}, r)
		require.LessOrEqual(f, r.at.Sub(died), lease+3*time.Second)
		late := <-running // its context ended with the lease
		require.ErrorIs(f, late.err, signalbox.ErrLost)
		require.Less(f, late.at, r.at)
		link.heal()
		require.Equal(f, "y", doOnce(f.Context(), once.New(runner, "a"), "z", 0).value)
	})
}

// The context of one caller ends its own wait alone, also that of the caller whose function runs: the function
// continues, and the others have its outcome.
func TestOnceCallersGiveUpAlone(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		runner, _, closeRunner := f.session(f.T)
		defer closeRunner()
		waiters, _, closeWaiters := f.session(f.T)
		defer closeWaiters()
		ctx, giveUp := context.WithCancel(f.Context())
		running := laterOnce(ctx, once.New(runner, "a"), "x", time.Hour)
		impatient, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		var gone, stay []<-chan doResult
		for range 3 {
			for _, s := range []*signalbox.Session{runner, waiters} {
				gone = append(gone, laterOnce(impatient, once.New(s, "a"), "y", 0))
				stay = append(stay, laterOnce(f.Context(), once.New(s, "a"), "z", 0))
			}
		}
		for _, one := range gone {
			r := <-one
			require.ErrorIs(f, r.err, context.DeadlineExceeded)
			require.ErrorIs(f, r.err, signalbox.ErrHeld)
		}
		synctest.Wait()
		giveUp()
		r := <-running
		require.ErrorIs(f, r.err, context.Canceled)
		require.True(f, r.ran)
		for _, one := range stay {
			r := <-one
			require.Equal(f, doResult{"x", false, nil, r.at}, r)
		}
	})
}

// An outcome ends after Keep, and then the next call runs its function.
func TestOnceForgetsAfterKeep(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		o := once.New(s, "a", once.Keep(time.Minute))
		require.True(f, doOnce(f.Context(), o, "x", 0).ran)
		time.Sleep(time.Minute - time.Second)
		require.Equal(f, "x", doOnce(f.Context(), o, "y", 0).value)
		time.Sleep(time.Second)
		require.Equal(f, "y", doOnce(f.Context(), o, "y", 0).value)
		time.Sleep(time.Hour)
		require.Empty(f, f.redis.Keys())
	})
}

// A run that lasts longer than Keep, and than many leases, stores its outcome.
func TestOnceRunsForLongerThanKeep(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		r := doOnce(f.Context(), once.New(s, "a", once.Keep(time.Second)), "x", 10*time.Minute)
		require.Equal(f, doResult{"x", true, nil, r.at}, r)
		require.Equal(f, "x", doOnce(f.Context(), once.New(s, "a"), "y", 0).value)
	})
}

// P5, P6: whatever fault whatever request has of the runner, the outcome is stored once, every caller
// gets it, and nothing is left behind.
func TestOnceUnderEveryFault(t *testing.T) {
	t.Parallel()
	kinds := []redistest.FaultKind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest,
		redistest.DelayReply, redistest.SwallowRequest, redistest.SwallowReply,
	}
	for _, kind := range kinds {
		for at := 1; at <= 6; at++ {
			bubble(t, func(f *fixture) {
				r := newRequestFault(kind)
				faulty, _, closeFaulty := f.requestFaultSession(r)
				defer closeFaulty()
				other, _, closeOther := f.session(f.T)
				defer closeOther()
				require.True(f, doOnce(f.Context(), once.New(faulty, "warm"), "", 0).ran)
				time.Sleep(2 * time.Minute)
				r.arm(at)
				running := laterOnce(f.Context(), once.New(faulty, "a"), "x", 10*time.Millisecond)
				waiting := laterOnce(f.Context(), once.New(other, "a"), "y", 10*time.Millisecond)
				one, two := <-running, <-waiting
				require.NoError(f, one.err, "%v at %d", kind, at)
				require.NoError(f, two.err, "%v at %d", kind, at)
				require.Equal(f, one.value, two.value, "%v at %d", kind, at)
				require.NotEqual(f, one.ran, two.ran, "%v at %d", kind, at)
				time.Sleep(time.Minute)
				requireIdle(f.T, faulty, other)
				require.Zero(f, f.left("a"))
				f.keysEnd(f.T)
			})
		}
	}
}

// A store without a reply is given up when the lease ends.
func TestOnceStoreWithoutAReplyIsUnconfirmed(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		r := newRequestFault(redistest.SwallowReply)
		faulty, link, closeFaulty := f.requestFaultSession(r)
		defer closeFaulty()
		began := time.Now()
		value, ran, err := once.New(faulty, "a", signalbox.WithRenewedLease(10*time.Second)).Do(f.Context(),
			func(context.Context, signalbox.Lease) ([]byte, error) {
				link.goSilent()
				return []byte("x"), nil
			})
		require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
		require.True(f, ran)
		require.Equal(f, "x", string(value))
		require.LessOrEqual(f, time.Since(began), 15*time.Second)
	})
}

// P10: a store that the server refuses for now is repeated, also for longer than the refusal of a lock.
func TestOnceStoreIsRepeatedWhileTheServerRefuses(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		_, ran, err := once.New(s, "a").Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
			f.redis.SetError("OOM command not allowed when used memory > 'maxmemory'")
			time.AfterFunc(8*time.Second, func() { f.redis.SetError("") })
			return []byte("x"), nil
		})
		require.NoError(f, err)
		require.True(f, ran)
		require.Equal(f, "x", doOnce(f.Context(), once.New(s, "a"), "y", 0).value)
	})
}

// P2: a lease that was lost before the function began runs no function: another one is acquired.
func TestOnceRunsNothingUnderALostLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		rf := newRequestFault(redistest.DelayRequest)
		faulty, _, closeFaulty := f.requestFaultSession(rf)
		defer closeFaulty()
		require.True(f, doOnce(f.Context(), once.New(faulty, "warm"), "", 0).ran)
		rf.arm(2, scripts.OnceRead) // behind the grant
		go func() {
			<-rf.fired
			f.redis.SetError("BUSY Redis is busy running a script")
			time.Sleep(15 * time.Second)
			f.redis.SetError("")
		}()
		began := time.Now()
		r := doOnce(f.Context(), once.New(faulty, "a", signalbox.WithRenewedLease(10*time.Second)), "x", time.Second)
		require.Equal(f, doResult{"x", true, nil, r.at}, r)
		require.Greater(f, r.at.Sub(began), 15*time.Second)
	})
}
