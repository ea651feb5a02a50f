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
func (w *fixture) owned(options ...signalbox.SessionOption) (*signalbox.Session, *wire) {
	c, link := w.client(w.T)
	set := session.Defaults()
	for _, option := range options {
		option(&set)
	}
	return (*signalbox.Session)(session.New(c, set, true).Handle()), link
}

// A forgotten lease delays Close for its context, or for the grace, and not for ever. The lease
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
			"Deadline": {time.Minute, time.Minute, []signalbox.SessionOption{signalbox.WithCloseGrace(time.Second)}},
		} {
			bubble(t, func(w *fixture) {
				logger, lines := logged()
				s, _ := w.owned(append(c.option, signalbox.WithLogger(logger))...)
				lease, err := take(w.Context(), s)
				require.NoError(w, err)
				time.Sleep(held)
				ctx := context.Background()
				if c.within > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.within)
					defer cancel()
				}
				closed := took(func() { err = s.Close(ctx) })
				require.ErrorContains(w, err, "holders were left", name)
				require.Equal(w, c.within > 0, ctx.Err() != nil)
				require.GreaterOrEqual(w, closed, c.lasts, line)
				require.LessOrEqual(w, closed, c.lasts+time.Second, line)
				require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
				require.ErrorIs(w, lease.Err(), signalbox.ErrClosed)
				require.Regexp(w, fmt.Sprintf("%s held=%v\n", line, held+c.lasts), lines, name)
				w.nothingHeld()
			})
		}
	}
}

// nothingHeld checks that every lock of the fixture can be had at once.
func (w *fixture) nothingHeld() {
	w.Helper()
	s, _, end := w.session(w.T)
	defer end()
	for line, take := range takes() {
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		lease, err := take(ctx, s)
		cancel()
		require.NoError(w, err, line)
		require.NoError(w, lease.Unlock())
		w.redis.FlushAll() // the next one may be of another kind
	}
}

// A grace that is over is not the caller's deadline.
func TestTheCloseGraceIsNoDeadlineOfTheCaller(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _ := w.owned(signalbox.WithLogger(slog.New(slog.DiscardHandler)))
		_, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		err = s.Close(context.Background())
		require.ErrorContains(w, err, "grace")
		require.NotErrorIs(w, err, context.DeadlineExceeded)
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
	bubble(t, func(w *fixture) {
		s, _ := w.owned(signalbox.WithHashedNames())
		for i := range leases {
			_, err := reentrant.New(s, fmt.Sprint("secret/", i)).Lock(w.Context())
			require.NoError(w, err)
		}
		require.Error(w, s.Close(endedContext()))
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
			bubble(t, func(w *fixture) {
				s, link := w.owned(signalbox.WithLogger(slog.New(slog.DiscardHandler)))
				waiting := prepare(w, s, link)
				lasted := took(func() { _ = end(s) })
				require.LessOrEqual(w, lasted, limit+time.Second, "%s, %v", name, limit)
				for _, c := range waiting {
					require.ErrorIs(w, <-c, signalbox.ErrClosed, "%s, %v", name, limit)
				}
				require.NoError(w, s.Close(context.Background()))
				for _, end := range w.ends {
					end()
				}
				time.Sleep(time.Minute) // calls that are on their way end with their wire
				synctest.Wait()
				require.Zero(w, goroutines(), name)
			})
		}
	}
}

// closeCase prepares a state, and returns what calls that wait in it are to end with.
type closeCase func(w *fixture, s *signalbox.Session, link *wire) []<-chan error

func closeCases() map[string]closeCase {
	states := map[string]closeCase{
		"Nothing": func(*fixture, *signalbox.Session, *wire) []<-chan error { return nil },
		"RoundStartUnanswered": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			rounds := 0
			w.unanswered(s, link, func(ctx context.Context) error {
				rounds++
				_, err := countdown.New(s, fmt.Sprint(rounds)).Start(ctx, 1)
				return err
			})
			return nil
		},
		"RoundStartOnItsWay": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			link.goSilent()
			return []<-chan error{w.later(func() error {
				_, err := countdown.New(s, "a").Start(context.Background(), 1)
				return err
			})}
		},
		"RoundAwaited": roundAwaited,
		"RoundAwaitedFrozen": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			defer link.goSilent()
			return roundAwaited(w, s, link)
		},
	}
	maps.Copy(states, electionStates())
	for line, take := range takes() {
		states["Unanswered "+line] = func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			w.unanswered(s, link, func(ctx context.Context) error {
				lease, err := take(ctx, s)
				_ = lease.Unlock()
				return err
			})
			return nil
		}
		states["Frozen "+line] = func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			_, err := take(w.Context(), s)
			require.NoError(w, err)
			link.goSilent()
			return nil
		}
		states["Unreachable "+line] = func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			_, err := take(w.Context(), s)
			require.NoError(w, err)
			link.refuses.Store(true)
			link.cut()
			return []<-chan error{w.later(func() error {
				_, err := reentrant.New(s, "other").Lock(context.Background())
				return err
			})}
		}
		if line == "kind=rwlock name=r" {
			continue // readers do not wait for each other
		}
		states["FrozenWaiter "+line] = func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			other, _, end := w.session(w.T, signalbox.WithLogger(slog.New(slog.DiscardHandler)))
			w.ends = append(w.ends, end)
			_, err := take(w.Context(), other)
			require.NoError(w, err)
			defer link.goSilent()
			return []<-chan error{w.later(func() error {
				_, err := take(context.Background(), s)
				return err
			})}
		}
		states["Waiters "+line] = func(w *fixture, s *signalbox.Session, _ *wire) []<-chan error {
			_, err := take(w.Context(), s)
			require.NoError(w, err)
			var waiting []<-chan error
			for range 3 {
				waiting = append(waiting, w.later(func() error {
					_, err := take(context.Background(), s)
					return err
				}))
			}
			return waiting
		}
	}
	return states
}

func roundAwaited(w *fixture, s *signalbox.Session, _ *wire) []<-chan error {
	round, err := countdown.New(s, "a").Start(w.Context(), 1)
	require.NoError(w, err)
	return []<-chan error{w.later(func() error { return round.Wait(context.Background()) })}
}

// unanswered makes a call whose request arrives and whose reply does not, and that gives up before
// it is undone.
func (w *fixture) unanswered(s *signalbox.Session, link *wire, call func(ctx context.Context) error) {
	w.Helper()
	require.NoError(w, call(w.Context())) // so that the server knows the scripts, and the session the time
	synctest.Wait()
	link.latency.Store(int64(20 * time.Millisecond))
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	time.AfterFunc(30*time.Millisecond, link.goSilent)
	require.Error(w, call(ctx))
	require.False(w, (*session.Handle)(s).Session().IsIdle())
}

// later makes a call that waits.
func (w *fixture) later(call func() error) <-chan error {
	end := make(chan error, 1)
	go func() { end <- call() }()
	time.Sleep(100 * time.Millisecond)
	return end
}

// A second Close blocks until the first is done, within its own context.
func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *fixture) {
		s, _ := w.owned(signalbox.WithCloseGrace(time.Minute))
		lease, err := reentrant.New(s, "a").Lock(w.Context())
		require.NoError(w, err)
		began := time.Now()
		first := w.later(func() error { return s.Close(context.Background()) })
		second := w.later(func() error { return s.Close(context.Background()) })
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.ErrorIs(w, s.Close(short), context.DeadlineExceeded)
		require.Less(w, time.Since(began), 2*time.Second)
		time.Sleep(10 * time.Second)
		select {
		case <-second:
			w.Error("the second Close returned before the first")
		default:
		}
		require.NoError(w, lease.Unlock())
		require.NoError(w, <-first)
		require.NoError(w, <-second)
		require.NoError(w, s.Close(endedContext()))
	})
}

// A lock over several sessions is logged by one of them, once.
func TestCloseLogsALeaseOfAQuorumOnce(t *testing.T) {
	t.Parallel()
	bubbleOf(t, 3, func(q *redlockServers) {
		q.makeReady()
		logger, lines := logged()
		sessions, _ := q.process(signalbox.WithLogger(logger))
		lease := q.mustLock(redlock.New(sessions, "a"))
		for i, s := range sessions {
			lasted := took(func() { _ = s.Close(context.Background()) })
			require.LessOrEqual(q, lasted, session.DefaultCloseGrace+time.Second, "session %d", i)
		}
		require.ErrorIs(q, lease.Err(), signalbox.ErrClosed)
		require.Equal(q, 1, strings.Count(lines.String(), "kind=redlock name=a"))
	})
}

// endedContext returns a context that has ended.
func endedContext() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
