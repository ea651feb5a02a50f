// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/reentrant"
)

// owned is what only one session can have.
type owned struct {
	err     func() error // of its lease
	release func() error
}

// holding acquires what only one session can have.
type holding func(ctx context.Context, s *signalbox.Session) (*owned, error)

// ofLease returns what a lease is.
func ofLease(lease signalbox.Lease, err error) (*owned, error) {
	if err != nil {
		return nil, err
	}
	return &owned{lease.Err, lease.Unlock}, nil
}

// holdings has one of each kind by which a session excludes others. The members of a multilock are acquired in one script or
// by the queue; a run of a once ends with its release.
func holdings() map[string]holding {
	kinds := map[string]holding{
		"Multilock": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			return ofLease(multilock.New(reentrant.New(s, "a"), fair.New(s, "b")).Lock(ctx))
		},
		"Election": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			term, err := election.New(s, "a", election.Value("v")).Campaign(ctx)
			if err != nil {
				return nil, err
			}
			return &owned{term.Err, term.Resign}, nil
		},
		"Once": func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			runs, ends, ended := make(chan signalbox.Lease), make(chan struct{}), make(chan error, 1)
			go func() {
				_, _, err := once.New(s, "a").Do(ctx, func(ctx context.Context, lease signalbox.Lease) ([]byte, error) {
					runs <- lease
					select {
					case <-ends:
					case <-ctx.Done():
					}
					return nil, context.Canceled // it failed: the next one runs
				})
				ended <- err
			}()
			select {
			case lease := <-runs:
				return &owned{lease.Err, func() error { close(ends); <-ended; return nil }}, nil
			case err := <-ended:
				return nil, err
			}
		},
	}
	for _, p := range append(locktest.Primitives(), locktest.Reader()) {
		kinds[p.Name] = func(ctx context.Context, s *signalbox.Session) (*owned, error) {
			return ofLease(p.New(s, "a").Lock(ctx))
		}
	}
	return kinds
}

// taking acquires what only one session can have, and returns what releases it.
type taking func(ctx context.Context, s *signalbox.Session) (release func() error, err error)

// takings has the releases of holdings.
func takings() map[string]taking {
	kinds := make(map[string]taking)
	for name, hold := range holdings() {
		kinds[name] = func(ctx context.Context, s *signalbox.Session) (func() error, error) {
			h, err := hold(ctx, s)
			if err != nil {
				return nil, err
			}
			return h.release, nil
		}
	}
	return kinds
}

// stepsClock sets the server's clock by ahead. Keys end by it: they live for longer if it is set back, and end sooner if it is set
// forward.
func (f *fixture) stepsClock(ahead *atomic.Int64, step time.Duration) {
	ahead.Add(int64(step))
	f.redis.SetTime(time.Now().Add(time.Duration(ahead.Load())))
	for _, key := range f.redis.Keys() {
		if left := f.redis.TTL(key); step < 0 && left > 0 { // set forward, the embedded server does that itself
			f.redis.SetTTL(key, left-step)
		}
	}
}

// P1, P2, P6: whatever the step of the server's clock, and whatever the kind, a holder that dies then delays the next one by
// its lease and a second at most. One that lives keeps what it has if the clock was set back, and the next one has it within
// two seconds of the release.
func TestAStepOfTheServersClockCostsOneLease(t *testing.T) {
	t.Parallel()
	const lease = 30 * time.Second // the default
	for name, take := range takings() {
		for _, step := range []time.Duration{100 * time.Second, -100 * time.Second, 2 * time.Hour, -2 * time.Hour} {
			for _, dies := range []bool{true, false} {
				t.Run(fmt.Sprint(name, step, map[bool]string{true: "Dies", false: "Renews"}[dies]), func(t *testing.T) {
					t.Parallel()
					bubble(t, func(f *fixture) {
						holder, link, end := f.session(f.T)
						defer end()
						next, _, endNext := f.session(f.T)
						defer endNext()
						var ahead atomic.Int64
						f.skewed(func() time.Duration { return time.Duration(ahead.Load()) })
						ctx, cancel := context.WithCancel(f.Context())
						defer cancel()
						had := take
						if name == locktest.Reader().Name {
							had = takings()[locktest.Writer().Name] // readers share
						}

						release, err := had(ctx, holder)
						require.NoError(f, err)
						time.Sleep(15 * time.Second) // it has its whole lease
						waiting := locktest.LaterWith(ctx, func(ctx context.Context) (func() error, error) { return take(ctx, next) })
						time.Sleep(2 * time.Second)
						f.stepsClock(&ahead, step)
						most := 2 * time.Second
						switch {
						case dies:
							most += lease
							if name == "Multilock" {
								most += lease // the second member is looked at when the first is acquired
							}
							link.refuses.Store(true)
							link.cut()
						case step < 0:
							time.Sleep(3 * lease)
							require.Empty(f, waiting, "it was lost")
							require.NoError(f, release())
						default:
							time.Sleep(lease)
							_ = release() // it may be lost: guarantees.md has the exception
						}
						time.Sleep(most)
						synctest.Wait()
						require.Len(f, waiting, 1, "it waits for longer than %v", most)
						releaseNext := locktest.MustHave(f, waiting)
						require.NoError(f, releaseNext())
						cancel()
					})
				})
			}
		}
	}
}

// P1, P3: while the server's clock is before tokens count, calls say so: a waiter within two polls, and a session at its first
// contact. When the clock is right again, so are the calls.
func TestAClockBeforeTokensCountIsNamed(t *testing.T) {
	t.Parallel()
	for name, take := range takings() {
		for _, year := range []int{1970, 1974, 2000, 2024} {
			t.Run(fmt.Sprint(name, year), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) {
					var ahead atomic.Int64
					f.skewed(func() time.Duration { return time.Duration(ahead.Load()) })
					had := take
					if name == locktest.Reader().Name {
						had = takings()[locktest.Writer().Name] // readers share
					}
					holder, _, end := f.session(f.T)
					defer end()
					release, err := had(f.Context(), holder)
					require.NoError(f, err)
					next, _, endNext := f.session(f.T)
					defer endNext()
					waiting := locktest.LaterWith(f.Context(), func(ctx context.Context) (func() error, error) { return take(ctx, next) })
					time.Sleep(15 * time.Second)

					step := time.Until(time.Date(year, time.March, 1, 0, 0, 0, 0, time.UTC))
					f.stepsClock(&ahead, step)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					require.Len(f, waiting, 1, "it waits for longer")
					newcomer, _, endNewcomer := f.session(f.T)
					defer endNewcomer()
					_, err = take(f.Context(), newcomer)
					for _, err := range []error{locktest.MustFail(f, waiting), err} {
						require.ErrorIs(f, err, signalbox.ErrUnsupported)
						require.ErrorContains(f, err, "the clock of the server has to show a year from 2025 to 2286")
					}
					time.Sleep(time.Minute)

					f.stepsClock(&ahead, -step)
					_ = release() // what was renewed by the wrong clock has ended by the right one
					release, err = take(f.Context(), newcomer)
					require.NoError(f, err)
					require.NoError(f, release())
				})
			})
		}
	}
}
