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
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// takeLease acquires something in a session.
type takeLease = func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error)

// takes are the ways to hold something in one session, and the lines that Close logs about it. When
// it ends one member of several, these are all released, so that the others may not be logged.
func takes() map[string]takeLease {
	all := map[string]takeLease{
		"kind=semaphore name=a": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return semaphore.New(s, "a", 3).Acquire(ctx, 2)
		},
		"kind=(reentrant|fair) name=(m|a)": func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return multilock.New(reentrant.New(s, "a"), fair.New(s, "m")).Lock(ctx)
		},
	}
	for name, kind := range map[string]locktest.Primitive{"reentrant name=a": locktest.Reentrant(), "fair name=f": locktest.Fair(), "rwlock name=a": locktest.Writer(), "rwlock name=r": locktest.Reader()} {
		all["kind="+name] = func(ctx context.Context, s *signalbox.Session) (signalbox.Lease, error) {
			return kind.New(s, name[len(name)-1:]).Lock(ctx)
		}
	}
	return all
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
			bubbleOfUsers(t, func(f *fixture) {
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
				if c.within != c.lasts {
					require.ErrorContains(f, err, "grace")
					require.NotErrorIs(f, err, context.DeadlineExceeded)
				}
				require.GreaterOrEqual(f, closed, c.lasts, line)
				require.LessOrEqual(f, closed, c.lasts+time.Second, line)
				require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
				require.ErrorIs(f, lease.Err(), signalbox.ErrClosed)
				require.Regexp(f, fmt.Sprintf("%s held=%v\n", line, held+c.lasts), lines, name)
				other := f.user().Session
				require.Less(f, took(func() { lease, err = take(f.Context(), other) }), time.Second)
				require.NoError(f, err)
				require.NoError(f, lease.Unlock())
			})
		}
	}
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
			atOnce(f.T, reentrant.New(s, fmt.Sprint("secret/", i)))
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
	starts := func(s *signalbox.Session, name string) error {
		return no(countdown.New(s, name).Start(context.Background(), 1))
	}
	awaited := func(f *fixture, s *signalbox.Session, _ *wire) []<-chan error {
		round, err := countdown.New(s, "a").Start(f.Context(), 1)
		require.NoError(f, err)
		return []<-chan error{f.later(func() error { return round.Wait(context.Background()) })}
	}
	states := map[string]closeCase{
		"Nothing": func(*fixture, *signalbox.Session, *wire) []<-chan error { return nil },
		"RoundStartUnanswered": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			rounds := 0
			f.unanswered(s, link, func(ctx context.Context) error {
				rounds++
				return no(countdown.New(s, fmt.Sprint(rounds)).Start(ctx, 1))
			})
			return nil
		},
		"RoundStartOnItsWay": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			link.goSilent()
			return []<-chan error{f.later(func() error { return starts(s, "a") })}
		},
		"RoundAwaited": awaited,
		"RoundAwaitedFrozen": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			defer link.goSilent()
			return awaited(f, s, link)
		},
	}
	maps.Copy(states, electionStates())
	maps.Copy(states, shardStates()) // members and observers of package shards
	for line, take := range takes() {
		holds := func(f *fixture, s *signalbox.Session) { require.NoError(f, no(take(f.Context(), s))) }
		waits := func(f *fixture, s *signalbox.Session) <-chan error {
			return f.later(func() error { return no(take(context.Background(), s)) })
		}
		states["Unanswered "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			f.unanswered(s, link, func(ctx context.Context) error {
				lease, err := take(ctx, s)
				_ = lease.Unlock()
				return err
			})
			return nil
		}
		states["Frozen "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			holds(f, s)
			link.goSilent()
			return nil
		}
		states["Unreachable "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			holds(f, s)
			link.refuses.Store(true)
			link.cut()
			return []<-chan error{f.later(func() error { return no(reentrant.New(s, "other").Lock(context.Background())) })}
		}
		if line == "kind=rwlock name=r" {
			continue // readers do not wait for each other
		}
		states["FrozenWaiter "+line] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			holds(f, f.user(quiet).Session)
			defer link.goSilent()
			return []<-chan error{waits(f, s)}
		}
		states["Waiters "+line] = func(f *fixture, s *signalbox.Session, _ *wire) []<-chan error {
			holds(f, s)
			return []<-chan error{waits(f, s), waits(f, s), waits(f, s)}
		}
	}
	return states
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

// electionStates are the states in which a session may be closed that has a candidate, a leader or an observer.
func electionStates() map[string]closeCase {
	observes := func(f *fixture, s *signalbox.Session) <-chan error {
		return f.later(func() (last error) {
			for _, last = range election.New(s, "a").Observe(context.Background()) { // the last error says how it ends
			}
			return last
		})
	}
	runs := func(f *fixture, s *signalbox.Session) <-chan error {
		return f.later(func() error {
			return election.New(s, "a").Run(context.Background(), func(ctx context.Context, _ election.Term) error {
				<-ctx.Done()
				return nil
			})
		})
	}
	return map[string]closeCase{
		"Leads": func(f *fixture, s *signalbox.Session, _ *wire) []<-chan error {
			return []<-chan error{runs(f, s), runs(f, s), observes(f, s)}
		},
		"LeadsFrozen": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			defer link.goSilent()
			return []<-chan error{runs(f, s), runs(f, s), observes(f, s)}
		},
		"SteppedDown": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			all := []<-chan error{runs(f, s), observes(f, s)}
			link.goSilent()
			time.Sleep(11 * time.Second)
			return all
		},
		"ValueOnItsWay": func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
			term := leads(f, election.New(s, "a"))
			link.goSilent()
			return []<-chan error{f.later(func() error { return term.SetValue(context.Background(), "x") })}
		},
	}
}

// shardStates are states of members and observers in which Close has to end them.
func shardStates() map[string]closeCase {
	runs := func(f *fixture, g *shards.Group) <-chan error {
		return f.later(func() error {
			return g.Run(context.Background(), func(ctx context.Context, _ shards.Shard) error {
				<-ctx.Done()
				return nil
			})
		})
	}
	watches := func(f *fixture, g *shards.Group) <-chan error {
		return f.later(func() (last error) {
			for _, last = range g.Watch(context.Background()) {
			}
			return last
		})
	}
	states := make(map[string]closeCase)
	for name, after := range map[string]time.Duration{"Joins": 0, "Owns": 4 * time.Second} {
		for fault, cause := range map[string]func(*wire){
			"": func(*wire) {}, "Frozen": (*wire).goSilent, "Unreachable": func(w *wire) {
				w.refuses.Store(true)
				w.cut()
			},
		} {
			states["Shards"+name+fault] = func(f *fixture, s *signalbox.Session, link *wire) []<-chan error {
				if after == 0 {
					cause(link)
				}
				g := shards.New(s, "a", shards.Count(3))
				all := []<-chan error{runs(f, g), watches(f, g)}
				time.Sleep(after)
				cause(link)
				return all
			}
		}
	}
	return states
}
