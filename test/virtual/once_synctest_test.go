// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
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
			bubbleOfUsers(t, func(f *fixture) {
				runner := f.user().Session
				running := laterOnce(f.Context(), once.New(runner, "a"), "x", 5*time.Second)
				var waiting []<-chan doResult
				sessions := []*signalbox.Session{runner}
				for range 4 {
					s, link := f.open()
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

// The context of one caller ends its own wait alone, also that of the caller whose function runs: the function
// continues, and the others have its outcome.
func TestOnceCallersGiveUpAlone(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		runner, waiters := f.user().Session, f.user().Session
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

// A run that lasts longer than Keep, and than many leases, stores its outcome.
func TestOnceRunsForLongerThanKeep(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		r := doOnce(f.Context(), once.New(s, "a", once.Keep(time.Second)), "x", 10*time.Minute)
		require.Equal(f, doResult{"x", true, nil, r.at}, r)
		require.Equal(f, "x", doOnce(f.Context(), once.New(s, "a"), "y", 0).value)
	})
}

// P2: a lease that was lost before the function began runs no function: another one is acquired.
func TestOnceRunsNothingUnderALostLease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(proto.OnceReadScript)
		s.delay.Store(int64(50 * time.Millisecond))
		require.True(f, doOnce(f.Context(), once.New(s.Session, "warm"), "", 0).ran)
		s.arm(redistest.DelayRequest, 2) // behind the grant
		s.then(2, func() {
			go f.redis.SetError("BUSY Redis is busy running a script")
			time.AfterFunc(15*time.Second, func() { f.redis.SetError("") })
		})
		began := time.Now()
		r := doOnce(f.Context(), once.New(s.Session, "a", signalbox.WithRenewedLease(10*time.Second)), "x", time.Second)
		require.Equal(f, doResult{"x", true, nil, r.at}, r)
		require.Greater(f, r.at.Sub(began), 15*time.Second)
	})
}

// P2: nor does TryDo, which acquires no other one.
func TestTryDoRunsNothingUnderALostLease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(proto.OnceReadScript)
		s.delay.Store(int64(500 * time.Millisecond))
		require.True(f, doOnce(f.Context(), once.New(s.Session, "warm"), "", 0).ran)
		s.arm(redistest.DelayRequest, 2) // behind the grant
		o := once.New(s.Session, "a", signalbox.WithFixedLease(200*time.Millisecond))
		_, ran, err := o.TryDo(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
			f.Error("the function runs")
			return nil, nil
		})
		require.False(f, ran)
		require.ErrorIs(f, err, signalbox.ErrLost)
		_, ran, err = o.TryDo(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) { return nil, nil })
		require.NoError(f, err)
		require.True(f, ran)
	})
}

// A function whose callers have all left continues, and its outcome is stored: the next call has it.
func TestOnceWorkOutlivesItsCallers(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		_, _, err := once.New(f.user().Session, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
			time.Sleep(once.DefaultLinger / 2)
			return []byte("x"), nil
		})
		require.ErrorIs(f, err, context.DeadlineExceeded)
		next := doOnce(f.Context(), once.New(f.user().Session, "a"), "y", 0)
		require.Equal(f, doResult{"x", false, nil, next.at}, next)
	})
}

type contextKey struct{}

// A function without callers ends after Linger. A call that comes meanwhile starts that time anew.
func TestOnceFunctionEndsAfterLinger(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // one bubble after the other
		options []signalbox.LockOption
		linger  time.Duration
	}{
		"Default": {nil, once.DefaultLinger},
		"Minute":  {[]signalbox.LockOption{once.Linger(time.Minute)}, time.Minute},
		"Zero":    {[]signalbox.LockOption{once.Linger(0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOfUsers(t, func(f *fixture) {
				o := once.New(f.user().Session, "a", c.options...)
				began, ended := make(chan struct{}), make(chan time.Time, 1)
				var cause error
				var value any
				ctx, leave := context.WithCancel(context.WithValue(f.Context(), contextKey{}, "trace"))
				first := make(chan error, 1)
				go func() {
					_, _, err := o.Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
						value = ctx.Value(contextKey{})
						close(began)
						<-ctx.Done()
						cause = context.Cause(ctx)
						ended <- time.Now()
						return nil, ctx.Err()
					})
					first <- err
				}()
				<-began
				patient, cancel := context.WithTimeout(f.Context(), 10*time.Minute)
				defer cancel()
				second := laterOnce(patient, o, "y", 0)
				leave()
				require.ErrorIs(f, <-first, context.Canceled)
				require.ErrorIs(f, (<-second).err, context.DeadlineExceeded)
				left := time.Now()
				if c.linger > 0 { // a third one comes when half of the time is over
					time.Sleep(c.linger / 2)
					brief, cancel := context.WithTimeout(f.Context(), time.Second)
					defer cancel()
					require.ErrorIs(f, doOnce(brief, o, "z", 0).err, context.DeadlineExceeded)
					left = time.Now()
				}
				require.WithinRange(f, <-ended, left.Add(c.linger), left.Add(c.linger+slack))
				require.NotErrorIs(f, cause, context.Canceled)
				require.ErrorContains(f, cause, "no call waits")
				require.Equal(f, "trace", value)
				require.Equal(f, "y", doOnce(f.Context(), o, "y", 0).value)
			})
		})
	}
}

// Close ends a function without callers at once, and waits until it has returned and its claim is released.
// One whose caller waits has the grace; it ends when that caller leaves.
func TestOnceCloseEndsAFunctionWithoutCallers(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"Gone": false, "LeavesDuringClose": true} { //nolint:paralleltest // one bubble after the other
		t.Run(name, func(t *testing.T) {
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user().Session
				ctx, leave := context.WithTimeout(f.Context(), time.Minute)
				defer leave()
				var returned atomic.Bool
				var cause error
				running := make(chan error, 1)
				go func() {
					_, _, err := once.New(s, "a").Do(ctx, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
						<-ctx.Done()
						cause = context.Cause(ctx)
						time.Sleep(500 * time.Millisecond) // to clean up
						returned.Store(true)
						return nil, ctx.Err()
					})
					running <- err
				}()
				at := time.Minute + time.Second
				if stays {
					at = time.Minute - 2*time.Second
				}
				time.Sleep(at)
				began := time.Now()
				require.NoError(f, s.Close(f.Context()))
				require.True(f, returned.Load())
				require.ErrorIs(f, cause, signalbox.ErrClosed)
				require.ErrorIs(f, <-running, context.DeadlineExceeded)
				took := 500 * time.Millisecond
				if stays {
					took += 2 * time.Second
				}
				require.InDelta(f, took, time.Since(began), float64(100*time.Millisecond))
				require.Zero(f, f.left("a"))
			})
		})
	}
}

// If a function fails or panics when its caller has left, nothing is stored, the next call runs its own, and the
// log has what no call returned. The process continues.
func TestOnceFailureWithoutACallerIsLogged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // one bubble after the other
		fails func() error
		logs  []string
	}{
		"Error": {func() error { return errors.New("broken") }, []string{"failed after its caller had left", "error=broken"}},
		"Panic": {func() error { panic("broken") }, []string{"a function panicked", "panic=broken", "once_synctest_test.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOfUsers(t, func(f *fixture) {
				logger, lines := logged()
				s := f.user(signalbox.WithLogger(logger)).Session
				ctx, cancel := context.WithTimeout(f.Context(), time.Second)
				defer cancel()
				waiting := make(chan doResult, 1)
				go func() {
					time.Sleep(500 * time.Millisecond)
					waiting <- doOnce(f.Context(), once.New(s, "a"), "next", 0)
				}()
				_, ran, err := once.New(s, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
					time.Sleep(2 * time.Second)
					return nil, c.fails()
				})
				require.ErrorIs(f, err, context.DeadlineExceeded)
				require.True(f, ran)
				next := <-waiting
				require.Equal(f, doResult{"next", true, nil, next.at}, next)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				found := matching(lines.String(), c.logs[0])
				require.Len(f, found, 1)
				for _, want := range append(c.logs, "kind=once", "name=a") {
					require.Contains(f, found[0], want)
				}
			})
		})
	}
}

// The leases that a caller's context carries are the caller's: the function does not enter them, since it may run when
// the caller has unlocked them.
func TestOnceFunctionEntersNoLeaseOfItsCaller(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user().Session
		lock := reentrant.New(s, "of the caller")
		lease, err := lock.Lock(f.Context())
		require.NoError(f, err)
		_, _, err = once.New(s, "a").Do(lease.Enter(f.Context()), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			_, err := lock.TryLock(ctx)
			return nil, err
		})
		require.ErrorIs(f, err, signalbox.ErrHeld)
		require.NoError(f, lease.Unlock())
	})
}

// A caller that begins after Forget returned, in the same session, gets no outcome from before it, though
// it may run after calls that were sent before.
func TestOnceGetsNothingFromBeforeForget(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Rounds(10, 100)) {
		bubbleOfUsers(t, func(f *fixture) {
			random := rand.New(rand.NewPCG(seed, 1))
			var all sync.WaitGroup
			var number, forgotten atomic.Int64 // values rise; those up to forgotten were forgotten
			for i := range 3 {
				s, link := f.open()
				link.latency.Store(int64(time.Duration(i) * time.Millisecond))
				for range 4 {
					pause := time.Duration(random.IntN(3000)) * time.Microsecond
					all.Go(func() {
						o := once.New(s, "a")
						for range 20 {
							since := forgotten.Load()
							value, _, err := o.Do(f.Context(), func(context.Context, signalbox.Lease) ([]byte, error) {
								return fmt.Append(nil, number.Add(1)), nil
							})
							if err != nil && !errors.Is(err, signalbox.ErrStale) {
								f.Error(err)
								return
							}
							var n int64
							_, _ = fmt.Sscan(string(value), &n)
							if n <= since {
								f.Errorf("seed %d: %d is of before %d", seed, n, since)
							}
							time.Sleep(pause)
						}
					})
				}
				all.Go(func() {
					for range 10 {
						time.Sleep(4 * time.Millisecond)
						upTo := number.Load() // all that is stored when Forget begins
						value, stored, err := once.New(s, "a").Get(f.Context())
						if err != nil || !stored {
							continue
						}
						_, _ = fmt.Sscan(string(value), &upTo)
						if err := once.New(s, "a").Forget(f.Context()); err != nil {
							f.Error(err)
						}
						for old := forgotten.Load(); old < upTo && !forgotten.CompareAndSwap(old, upTo); old = forgotten.Load() {
						}
					}
				})
			}
			all.Wait()
		})
	}
}
