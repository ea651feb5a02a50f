// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// takes are the ways to hold something in one session, and the lines that Close logs about it. When
// it ends one member of several, these are all released, so that the others may not be logged.
func takes() map[string]func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
	return map[string]func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error){
		"kind=reentrant name=a": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return reentrant.New(s, "a").Lock(ctx)
		},
		"kind=fair name=f": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return fair.New(s, "f").Lock(ctx)
		},
		"kind=rwlock name=a": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return rwlock.New(s, "a").Lock(ctx)
		},
		"kind=rwlock name=r": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return rwlock.New(s, "r").RLock(ctx)
		},
		"kind=semaphore name=a": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return semaphore.New(s, "a", 3).Acquire(ctx, 2)
		},
		"kind=(reentrant|fair) name=(m|a)": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return multilock.New(reentrant.New(s, "a"), fair.New(s, "m")).Lock(ctx)
		},
	}
}

// logged returns a logger, and what it has logged.
func logged() (*slog.Logger, *logLines) {
	link := new(logLines)
	return slog.New(slog.NewTextHandler(link, nil)), link
}

// logLines is a buffer for lines of a log. A session writes them on a goroutine of its own.
type logLines struct {
	mu struct {
		sync.Mutex
		text bytes.Buffer
	}
}

// Write implements io.Writer.
func (l *logLines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.Write(line)
}

// String returns what was written.
func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.text.String()
}

// owned returns a session whose Close also closes its client, as Dial makes it.
func (f *fixture) owned(options ...signalbox.SessionOption) (*signalbox.Session, *wire) {
	c, link := f.client(f.T)
	set := session.Defaults()
	for _, option := range options {
		option(&set)
	}
	return (*signalbox.Session)(session.New(c, set, true).Handle()), link
}

// A forgotten lease delays Close for its context or for the grace, whichever is shorter. The lease
// ends, is logged, and its key is gone.
func TestCloseEndsAForgottenLease(t *testing.T) {
	t.Parallel()
	const held = 90 * time.Second
	for line, take := range takes() {
		for name, c := range map[string]struct {
			within time.Duration // the caller's deadline; 0 for no deadline
			lasts  time.Duration
			option []signalbox.SessionOption
		}{
			"Default":  {0, session.DefaultCloseGrace, nil},
			"Grace":    {0, 2 * time.Minute, []signalbox.SessionOption{signalbox.WithCloseGrace(2 * time.Minute)}},
			"Deadline": {time.Minute, time.Minute, nil},
			"Shorter":  {time.Minute, time.Minute, []signalbox.SessionOption{signalbox.WithCloseGrace(time.Hour)}},
			"Longer":   {time.Minute, 2 * time.Second, []signalbox.SessionOption{signalbox.WithCloseGrace(2 * time.Second)}},
		} {
			bubble(t, func(f *fixture) {
				logger, lines := logged()
				s, _ := f.owned(append(c.option, signalbox.WithLogger(logger))...)
				lease, err := take(f.Context(), s)
				require.NoError(f, err)
				time.Sleep(held)
				ctx := context.Background()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				closed := took(func() { err = s.Close(ctx) })
				require.ErrorContains(f, err, "holders were left", name)
				require.Equal(f, c.within == c.lasts, ctx.Err() != nil)
				require.GreaterOrEqual(f, closed, c.lasts, line)
				require.LessOrEqual(f, closed, c.lasts+time.Second, line)
				require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
				require.ErrorIs(f, lease.Err(), signalbox.ErrClosed)
				require.Regexp(f, fmt.Sprintf("%s held=%v\n", line, held+c.lasts), lines, name)
				f.nothingHeld()
			})
		}
	}
}

// nothingHeld checks that every lock of the fixture can be had at once.
func (f *fixture) nothingHeld() {
	f.Helper()
	s, _, end := f.session(f.T)
	defer end()
	for line, take := range takes() {
		ctx, cancel := context.WithTimeout(f.Context(), time.Second)
		lease, err := take(ctx, s)
		cancel()
		require.NoError(f, err, line)
		require.NoError(f, lease.Unlock())
		f.redis.FlushAll() // the next one may be of another kind
	}
}

// A grace that is over is not the caller's deadline.
func TestTheCloseGraceIsNoDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _ := f.owned(signalbox.WithLogger(slog.New(slog.DiscardHandler)))
		_, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		err = s.Close(context.Background())
		require.ErrorContains(f, err, "grace")
		require.NotErrorIs(f, err, context.DeadlineExceeded)
	})
}

// The log is bounded, names are as hashed as the session wants them, and without a logger of the
// session the lines go to the program's own.
func TestCloseLogsTheLeasesItEnds(t *testing.T) { //nolint:paralleltest // sets the logger of the program
	const leases = 50
	logger, lines := logged()
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(logger)
	bubble(t, func(f *fixture) {
		s, _ := f.owned(signalbox.WithHashedNames())
		for i := range leases {
			_, err := reentrant.New(s, fmt.Sprint("secret/", i)).Lock(f.Context())
			require.NoError(f, err)
		}
		require.Error(f, s.Close(endedContext()))
	})
	require.Equal(t, 20, strings.Count(lines.String(), "kind=reentrant name=%sha256-"))
	require.Contains(t, lines.String(), "leases=30")
	require.NotContains(t, lines.String(), "secret")
}

// Whichever calls have no reply or wait when it begins, Close returns within its context and a
// second, or the grace and a second, and every waiter returns.
func TestCloseReturnsInTimeInEveryState(t *testing.T) {
	t.Parallel()
	for name, prepare := range closeCases() {
		for limit, end := range map[time.Duration]func(s *signalbox.Session) error{
			0: func(s *signalbox.Session) error { return s.Close(endedContext()) },
			300 * time.Millisecond: func(s *signalbox.Session) error {
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				defer cancel()
				return s.Close(ctx)
			},
			session.DefaultCloseGrace: func(s *signalbox.Session) error { return s.Close(context.Background()) },
		} {
			bubble(t, func(f *fixture) {
				s, link := f.owned(signalbox.WithLogger(slog.New(slog.DiscardHandler)))
				waiting := prepare(f, s, link)
				lasted := took(func() { _ = end(s) })
				require.LessOrEqual(f, lasted, limit+time.Second, "%s, %v", name, limit)
				for _, c := range waiting {
					require.ErrorIs(f, <-c, signalbox.ErrClosed, "%s, %v", name, limit)
				}
				require.NoError(f, s.Close(context.Background()))
				for _, end := range f.ends {
					end()
				}
				time.Sleep(time.Minute) // calls that are on their way end with their wire
				synctest.Wait()
				require.Zero(f, goroutines(), name)
			})
		}
	}
}

// closeCase prepares a state, and returns what calls that wait in it are to end with.
type closeCase func(f *fixture, s *signalbox.Session, link *wire) []<-chan error

func closeCases() map[string]closeCase {
	states := map[string]closeCase{
		"Nothing": func(*fixture, *signalbox.Session, *wire) []<-chan error { return nil },
		"RoundStartUnanswered": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			rounds := 0
			f.unanswered(s, link, func(ctx context.Context) error {
				rounds++
				_, err := countdown.New(s, fmt.Sprint(rounds)).Start(ctx, 1)
				return err
			})
			return nil
		},
		"RoundStartOnItsWay": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			link.goSilent()
			return []<-chan error{f.later(func() error {
				_, err := countdown.New(s, "a").Start(context.Background(), 1)
				return err
			})}
		},
		"RoundAwaited": roundAwaited,
		"RoundAwaitedFrozen": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			defer link.goSilent()
			return roundAwaited(f, s, link)
		},
	}
	maps.Copy(states, electionStates())
	maps.Copy(states, shardStates()) // members and observers of package shards
	for line, take := range takes() {
		states["Unanswered "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			f.unanswered(s, link, func(ctx context.Context) error {
				lease, err := take(ctx, s)
				_ = lease.Unlock()
				return err
			})
			return nil
		}
		states["Frozen "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			_, err := take(f.Context(), s)
			require.NoError(f, err)
			link.goSilent()
			return nil
		}
		states["Unreachable "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			_, err := take(f.Context(), s)
			require.NoError(f, err)
			link.refuses.Store(true)
			link.cut()
			return []<-chan error{f.later(func() error {
				_, err := reentrant.New(s, "other").Lock(context.Background())
				return err
			})}
		}
		if line == "kind=rwlock name=r" {
			continue // readers do not wait for each other
		}
		states["FrozenWaiter "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			other, _, end := f.session(f.T, signalbox.WithLogger(slog.New(slog.DiscardHandler)))
			f.ends = append(f.ends, end)
			_, err := take(f.Context(), other)
			require.NoError(f, err)
			defer link.goSilent()
			return []<-chan error{f.later(func() error {
				_, err := take(context.Background(), s)
				return err
			})}
		}
		states["Waiters "+line] = func(f *fixture, s *signalbox.Session, _ *wire) []<-chan error {
			_, err := take(f.Context(), s)
			require.NoError(f, err)
			var waiting []<-chan error
			for range 3 {
				waiting = append(waiting, f.later(func() error {
					_, err := take(context.Background(), s)
					return err
				}))
			}
			return waiting
		}
	}
	return states
}

func roundAwaited(f *fixture, s *signalbox.Session, _ *wire) []<-chan error {
	round, err := countdown.New(s, "a").Start(f.Context(), 1)
	require.NoError(f, err)
	return []<-chan error{f.later(func() error { return round.Wait(context.Background()) })}
}

// unanswered makes a call whose request arrives and whose reply does not, and that gives up before
// it is undone.
func (f *fixture) unanswered(s *signalbox.Session, link *wire, call func(ctx context.Context) error) {
	f.Helper()
	require.NoError(f, call(f.Context())) // so that the server knows the scripts, and the session the time
	synctest.Wait()
	link.latency.Store(int64(20 * time.Millisecond))
	ctx, cancel := context.WithTimeout(f.Context(), time.Second)
	defer cancel()
	time.AfterFunc(30*time.Millisecond, link.goSilent)
	require.Error(f, call(ctx))
	require.False(f, (*session.Handle)(s).Session().IsIdle())
}

// later makes a call that waits.
func (f *fixture) later(call func() error) <-chan error {
	end := make(chan error, 1)
	go func() { end <- call() }()
	time.Sleep(100 * time.Millisecond)
	return end
}

// A second Close blocks until the first is done, within its own context.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		s, _ := f.owned(signalbox.WithCloseGrace(time.Minute))
		lease, err := reentrant.New(s, "a").Lock(f.Context())
		require.NoError(f, err)
		began := time.Now()
		first := f.later(func() error { return s.Close(context.Background()) })
		second := f.later(func() error { return s.Close(context.Background()) })
		short, cancel := context.WithTimeout(f.Context(), time.Second)
		defer cancel()
		require.ErrorIs(f, s.Close(short), context.DeadlineExceeded)
		require.Less(f, time.Since(began), 2*time.Second)
		time.Sleep(10 * time.Second)
		select {
		case <-second:
			f.Error("the second Close returned before the first")
		default:
		}
		require.NoError(f, lease.Unlock())
		require.NoError(f, <-first)
		require.NoError(f, <-second)
		require.NoError(f, s.Close(endedContext()))
	})
}

// A lock over several sessions is logged by one of them, once.
func TestCloseLogsALeaseOfAQuorumOnce(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 3, func(r *redlockServers) {
		r.makeReady()
		logger, lines := logged()
		sessions, _ := r.process(signalbox.WithLogger(logger))
		lease := r.mustLock(redlock.New(sessions, "a"))
		for i, s := range sessions {
			lasted := took(func() { _ = s.Close(context.Background()) })
			require.LessOrEqual(r, lasted, session.DefaultCloseGrace+time.Second, "session %d", i)
		}
		require.ErrorIs(r, lease.Err(), signalbox.ErrClosed)
		require.Equal(r, 1, strings.Count(lines.String(), "kind=redlock name=a"))
	})
}

// endedContext returns a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
