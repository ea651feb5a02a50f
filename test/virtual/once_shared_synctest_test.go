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
			bubble(t, func(w *fixture) {
				var runs, early, failed, late atomic.Int64
				began := time.Now()
				var all sync.WaitGroup
				for range 2 {
					s, _, closeAll := w.session(w.T)
					defer closeAll()
					o := once.New(s, "price", once.Keep(time.Minute))
					for range 5 {
						all.Go(func() {
							for time.Since(began) < c.work+3*time.Second {
								call, cancel := context.WithTimeout(w.Context(), c.patience)
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
				require.EqualValues(w, 1, runs.Load())
				require.Positive(w, early.Load())
				require.Zero(w, failed.Load(), "calls that ended after the work was done")
				require.Greater(w, late.Load(), int64(10*10))
			})
		})
	}
}

// A Do returns in the instant in which its context ends, whatever the server does: while it waits, while an
// unused claim is released, while its function runs, and while the value is stored.
func TestOnceDoReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	const patience = 700 * time.Millisecond
	for name, at := range map[string]int{"Look": 1, "Claim": 2, "LookAgain": 3, "Run": 0, "Store": 4} { //nolint:paralleltest // one bubble after the other
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *fixture) {
				s := newRequestFault(redistest.SwallowRequest)
				faulty, link, closeFaulty := w.requestFaultSession(s)
				defer closeFaulty()
				require.True(w, doOnce(w.Context(), once.New(faulty, "warm"), "", 0).ran)
				time.Sleep(2 * time.Minute)
				if at > 0 {
					s.arm(at)
					go func() {
						<-s.fired
						link.goSilent()
					}()
				}
				ctx, cancel := context.WithTimeout(w.Context(), patience)
				defer cancel()
				began := time.Now()
				_, ran, err := once.New(faulty, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
					if at == 0 {
						link.goSilent()
						time.Sleep(time.Minute)
					}
					return []byte("x"), nil
				})
				require.ErrorIs(w, err, context.DeadlineExceeded)
				require.Equal(w, patience, time.Since(began))
				require.Equal(w, at == 0 || at == 4, ran)
				link.heal()
				time.Sleep(2 * time.Minute)
				requireIdle(w.T, faulty)
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

func (b *untilCancelled) run(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
	b.value = ctx.Value(contextKey{})
	close(b.began)
	<-ctx.Done()
	b.cause = context.Cause(ctx)
	b.ended <- time.Now()
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
			bubble(t, func(w *fixture) {
				s, _, closeAll := w.session(w.T)
				defer closeAll()
				o := once.New(s, "a", c.options...)
				b := newUntilCancelled()
				ctx, leave := context.WithCancel(context.WithValue(w.Context(), contextKey{}, "trace"))
				first := make(chan error, 1)
				go func() {
					_, _, err := o.Do(ctx, b.run)
					first <- err
				}()
				<-b.began
				patient, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
				defer cancel()
				second := laterOnce(patient, o, "y", 0)
				leave()
				require.ErrorIs(w, <-first, context.Canceled)
				require.ErrorIs(w, (<-second).err, context.DeadlineExceeded)
				left := time.Now()
				if c.linger > 0 { // a third one comes when half of the time is over
					time.Sleep(c.linger / 2)
					brief, cancel := context.WithTimeout(w.Context(), time.Second)
					defer cancel()
					require.ErrorIs(w, doOnce(brief, o, "z", 0).err, context.DeadlineExceeded)
					left = time.Now()
				}
				require.WithinRange(w, <-b.ended, left.Add(c.linger), left.Add(c.linger+slack))
				require.NotErrorIs(w, b.cause, context.Canceled)
				require.ErrorContains(w, b.cause, "no call waits")
				require.Equal(w, "trace", b.value)
				require.Equal(w, "y", doOnce(w.Context(), o, "y", 0).value)
			})
		})
	}
}

// The function ends with its lease, however many call: at MaxHold, and when the lock is taken away.
func TestOnceFunctionEndsWithItsLease(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		o := once.New(s, "a", signalbox.WithMaxHold(time.Minute))
		b := newUntilCancelled()
		began := time.Now()
		_, ran, err := o.Do(w.Context(), b.run)
		require.ErrorIs(w, err, context.Canceled)
		require.True(w, ran)
		require.ErrorIs(w, b.cause, signalbox.ErrMaxHold)
		require.LessOrEqual(w, (<-b.ended).Sub(began), time.Minute)

		b = newUntilCancelled()
		ctx, leave := context.WithTimeout(w.Context(), time.Second)
		defer leave()
		_, _, err = o.Do(ctx, b.run)
		require.ErrorIs(w, err, context.DeadlineExceeded)
		require.NoError(w, fair.New(s, "a").ForceUnlock(w.Context()))
		<-b.ended
		require.ErrorIs(w, b.cause, signalbox.ErrLost)
	})
}

// Close ends a function without callers at once, and waits until it has returned and its claim is released.
// One whose caller waits has the grace; it ends when that caller leaves.
func TestOnceCloseEndsAFunctionWithoutCallers(t *testing.T) {
	t.Parallel()
	for name, stays := range map[string]bool{"Gone": false, "LeavesDuringClose": true} { //nolint:paralleltest // one bubble after the other
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *fixture) {
				s, _, closeAll := w.session(w.T)
				defer closeAll()
				ctx, leave := context.WithTimeout(w.Context(), time.Minute)
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
				require.NoError(w, s.Close(w.Context()))
				require.True(w, returned.Load())
				require.ErrorIs(w, cause, signalbox.ErrClosed)
				require.ErrorIs(w, <-running, context.DeadlineExceeded)
				took := 500 * time.Millisecond
				if stays {
					took += 2 * time.Second
				}
				require.InDelta(w, took, time.Since(began), float64(100*time.Millisecond))
				require.Zero(w, w.left("a"))
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
			bubble(t, func(w *fixture) {
				logger, lines := logged()
				s, _, closeAll := w.session(w.T, signalbox.WithLogger(logger))
				defer closeAll()
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				waiting := make(chan doResult, 1)
				go func() {
					time.Sleep(500 * time.Millisecond)
					waiting <- doOnce(w.Context(), once.New(s, "a"), "next", 0)
				}()
				_, ran, err := once.New(s, "a").Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
					time.Sleep(2 * time.Second)
					return nil, c.fails()
				})
				require.ErrorIs(w, err, context.DeadlineExceeded)
				require.True(w, ran)
				next := <-waiting
				require.Equal(w, doResult{"next", true, nil, next.at}, next)
				time.Sleep(2 * time.Second)
				synctest.Wait()
				found := matching(lines.String(), c.logs[0])
				require.Len(w, found, 1)
				for _, want := range append(c.logs, "kind=once", "name=a") {
					require.Contains(w, found[0], want)
				}
			})
		})
	}
}

// The leases that a caller's context carries are the caller's: the function does not enter them, since it may run when
// the caller has unlocked them.
func TestOnceFunctionEntersNoLeaseOfItsCaller(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		lock := reentrant.New(s, "of the caller")
		lease, err := lock.Lock(w.Context())
		require.NoError(w, err)
		_, _, err = once.New(s, "a").Do(lease.Enter(w.Context()), func(ctx context.Context, _ signalbox.Lease) ([]byte, error) {
			_, err := lock.TryLock(ctx)
			return nil, err
		})
		require.ErrorIs(w, err, signalbox.ErrHeld)
		require.NoError(w, lease.Unlock())
	})
}

// P7: a Do that runs its function has one goroutine of the library's beside the caller, and leaves none.
func TestOnceLeavesNoGoroutine(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _, closeAll := w.session(w.T)
		defer closeAll()
		for range 20 {
			require.NoError(w, once.New(s, "a").Forget(w.Context()))
			require.True(w, doOnce(w.Context(), once.New(s, "a"), "x", time.Second).ran)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		requireIdle(w.T, s)
		require.LessOrEqual(w, resting(), 5)
	})
}
