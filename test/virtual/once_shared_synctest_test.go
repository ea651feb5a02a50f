// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// Callers that give up long before the work is done do not end it: the source is asked once, and every later
// call has the outcome.
func TestOnceWorkOutlivesItsCallers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct { //nolint:paralleltest // one bubble after the other
		patience, work time.Duration
	}{
		"AlmostDone": {time.Second, 1500 * time.Millisecond},
		"Long":       {time.Second, time.Minute + 500*time.Millisecond},
		"VeryShort":  {20 * time.Millisecond, 990 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				var runs, early, failed, late atomic.Int64
				began := time.Now()
				var all sync.WaitGroup
				for range 2 {
					s, _, closeAll := f.session(f.T)
					defer closeAll()
					o := once.New(s, "price", once.Keep(time.Minute))
					for range 5 {
						all.Go(func() {
							for time.Since(began) < c.work+3*time.Second {
								call, cancel := context.WithTimeout(f.Context(), c.patience)
								_, _, err := o.Do(call, func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
									runs.Add(1)
									select {
									case <-time.After(c.work):
										return []byte("1.99"), nil
									case <-ctx.Done():
										return nil, ctx.Err()
									}
								})
								cancel()
								switch {
								case time.Since(began) < c.work:
									early.Add(1)
								case err == nil:
									late.Add(1)
								default:
									failed.Add(1)
								}
								if err == nil {
									time.Sleep(200 * time.Millisecond)
								}
							}
						})
					}
				}
				all.Wait()
				require.EqualValues(f, 1, runs.Load())
				require.Positive(f, early.Load())
				require.Zero(f, failed.Load(), "calls that ended after the work was done")
				require.Greater(f, late.Load(), int64(10*10))
			})
		})
	}
}

// A Do returns in the instant in which its context ends, whatever the server does: while it waits, while an
// unused claim is released, while its function runs, and while the value is stored.
func TestOnceDoReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	const patience = 700 * time.Millisecond
	for name, at := range map[string]int{"Read": 1, "Claim": 2, "ReadAgain": 3, "Run": 0, "Store": 4} { //nolint:paralleltest // one bubble after the other
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				r := newRequestFault(redistest.SwallowRequest)
				faulty, link, closeFaulty := f.requestFaultSession(r)
				defer closeFaulty()
				require.True(f, doOnce(f.Context(), once.New(faulty, "warm"), "", 0).ran)
				time.Sleep(2 * time.Minute)
				if at > 0 {
					r.arm(at)
					go func() {
						<-r.fired
						link.goSilent()
					}()
				}
				ctx, cancel := context.WithTimeout(f.Context(), patience)
				defer cancel()
				began := time.Now()
				_, ran, err := once.New(faulty, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
					if at == 0 {
						link.goSilent()
						time.Sleep(time.Minute)
					}
					return []byte("x"), nil
				})
				require.ErrorIs(f, err, context.DeadlineExceeded)
				require.Equal(f, patience, time.Since(began))
				require.Equal(f, at == 0 || at == 4, ran)
				link.heal()
				time.Sleep(2 * time.Minute)
				requireIdle(f.T, faulty)
			})
		})
	}
}

// untilCancelled is a function that runs until its context ends, and says when and why that was.
type untilCancelled struct {
	began chan struct{}
	ended chan time.Time
	cause error // written before ended is sent
	value any   // the value of the context, for key
}

type contextKey struct{}

func newUntilCancelled() *untilCancelled {
	return &untilCancelled{began: make(chan struct{}), ended: make(chan time.Time, 1)}
}

func (u *untilCancelled) run(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
	u.value = ctx.Value(contextKey{})
	close(u.began)
	<-ctx.Done()
	u.cause = context.Cause(ctx)
	u.ended <- time.Now()
	return nil, ctx.Err()
}

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
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T)
				defer closeAll()
				o := once.New(s, "a", c.options...)
				u := newUntilCancelled()
				ctx, leave := context.WithCancel(context.WithValue(f.Context(), contextKey{}, "trace"))
				first := make(chan error, 1)
				go func() {
					_, _, err := o.Do(ctx, u.run)
					first <- err
				}()
				<-u.began
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
				require.WithinRange(f, <-u.ended, left.Add(c.linger), left.Add(c.linger+slack))
				require.NotErrorIs(f, u.cause, context.Canceled)
				require.ErrorContains(f, u.cause, "no call waits")
				require.Equal(f, "trace", u.value)
				require.Equal(f, "y", doOnce(f.Context(), o, "y", 0).value)
			})
		})
	}
}

// The function ends with its lease, however many call: at MaxHold, and when the lock is taken away.
func TestOnceFunctionEndsWithItsLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		o := once.New(s, "a", signalbox.WithMaxHold(time.Minute))
		u := newUntilCancelled()
		began := time.Now()
		_, ran, err := o.Do(f.Context(), u.run)
		require.ErrorIs(f, err, context.Canceled)
		require.True(f, ran)
		require.ErrorIs(f, u.cause, signalbox.ErrMaxHold)
		require.LessOrEqual(f, (<-u.ended).Sub(began), time.Minute)

		u = newUntilCancelled()
		ctx, leave := context.WithTimeout(f.Context(), time.Second)
		defer leave()
		_, _, err = o.Do(ctx, u.run)
		require.ErrorIs(f, err, context.DeadlineExceeded)
		require.NoError(f, fair.New(s, "a").ForceUnlock(f.Context()))
		<-u.ended
		require.ErrorIs(f, u.cause, signalbox.ErrLost)
	})
}

// Close ends a function without callers at once, and waits until it has returned and its claim is released.
// One whose caller waits has the grace; it ends when that caller leaves.
func TestOnceCloseEndsAFunctionWithoutCallers(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"Gone": false, "LeavesDuringClose": true} { //nolint:paralleltest // one bubble after the other
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				s, _, closeAll := f.session(f.T)
				defer closeAll()
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
		"Panic": {func() error { panic("broken") }, []string{"a function panicked", "panic=broken", "once_shared_synctest_test.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				logger, lines := logged()
				s, _, closeAll := f.session(f.T, signalbox.WithLogger(logger))
				defer closeAll()
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
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
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

// P7: a Do that runs its function has one goroutine of the library's beside the caller, and leaves none.
func TestOnceLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		for range 20 {
			require.NoError(f, once.New(s, "a").Forget(f.Context()))
			require.True(f, doOnce(f.Context(), once.New(s, "a"), "x", time.Second).ran)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		requireIdle(f.T, s)
		require.LessOrEqual(f, resting(), 5)
	})
}
