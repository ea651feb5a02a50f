// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P7: hours of leading cost the renewals of the lease and a write of the value in each lease; hours of observing cost a
// poll a second. No goroutine waits for a term.
func TestHoursOfLeadingCostRenewalsAndOneWriteALease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		const lease = election.DefaultLease
		term := leads(f, election.New(f.user().Session, "a", election.Value("x")))
		time.Sleep(time.Minute)
		f.scripts.Store(0)
		hours := time.Duration(redistest.Rounds(1, 10)) * time.Hour
		time.Sleep(hours)
		require.NoError(f, term.Err())
		leases := float64(hours / lease)
		require.InEpsilon(f, leases*4, float64(f.scripts.Load()), 0.05, "three renewals, and a write")
		require.LessOrEqual(f, resting(), 2, "of the timers and the subscription")
		observers := observing(f.Context(), election.New(f.user().Session, "a"))
		observing(f.Context(), election.New(f.user().Session, "a"))
		require.Equal(f, "x", (<-observers).Value)
		time.Sleep(time.Minute)
		f.scripts.Store(0)
		time.Sleep(10 * time.Minute)
		require.InEpsilon(f, 600/15*4+2*2*600/0.9, float64(f.scripts.Load()), 0.05, "two scripts a poll, of two sessions")
		require.Empty(f, observers)
		require.NoError(f, term.Resign())
	})
}

// P5: a value that was lost with its key is back within a lease, and keeps its number.
func TestLostValueComesBackWithinALease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		e := election.New(f.user().Session, "a", election.Value("first"))
		term := leads(f, e)
		require.NoError(f, term.SetValue(f.Context(), "second"))
		for range 10 {
			time.Sleep(7 * time.Second)
			f.redis.Del(valueOf("a"))
			l, err := e.Leader(f.Context())
			require.NoError(f, err)
			require.Equal(f, term.Token(), l.Token)
			require.Empty(f, l.Value)
			time.Sleep(election.DefaultLease + 100*time.Millisecond)
			l, err = e.Leader(f.Context())
			require.NoError(f, err)
			require.Equal(f, "second", l.Value)
		}
	})
}

// P4, P5, P6: whichever request of a term fails, and however: each call returns, the value of the term is the last one that
// was set, and the next candidate leads.
func TestTermSurvivesAFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	// session/hello, enter, put twice or three times, SUBSCRIBE, read and describe twice or three times, leave, clear.
	const steps = 14
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		calm := f.user()
		s := f.faultySession(redistest.Commands("EVAL", "EVALSHA", "SUBSCRIBE"))
		for at := 1; at <= steps; at++ {
			name := fmt.Sprint(at)
			mine, theirs := election.New(s.Session, name, election.Value("first")), election.New(calm.Session, name)
			s.arm(kind, at)
			term := leads(f, mine)
			next := candidate(f, theirs)
			require.NoError(f, term.SetValue(f.Context(), "second"))
			require.NoError(f, term.SetValue(f.Context(), "third"))
			ctx, cancel := context.WithCancel(f.Context())
			seen := observing(ctx, mine)
			for s := range seen {
				require.NoError(f, s.err)
				if s.Value == "third" {
					break
				}
			}
			l, err := theirs.Leader(f.Context())
			require.NoError(f, err)
			require.Equal(f, "third", l.Value)
			require.Equal(f, term.Token(), l.Token)
			require.NoError(f, f.resigns(term))
			second := <-next
			for s := range seen {
				require.NoError(f, s.err)
				if s.Token == second.Token() {
					break
				}
			}
			cancel()
			require.Greater(f, second.Token(), term.Token())
			l, err = theirs.Leader(f.Context())
			require.NoError(f, err)
			require.Empty(f, l.Value, "at %d", at)
			require.NoError(f, second.Resign())
			_, err = theirs.Leader(f.Context())
			require.ErrorIs(f, err, signalbox.ErrNotHeld)
			s.heal()
		}
	})
}

// resigns ends a term early. That the server did not confirm it is no error: it is repeated.
func (f *fixture) resigns(term election.Term) error {
	if err := term.Resign(); !errors.Is(err, signalbox.ErrUnconfirmed) {
		return err
	}
	return nil
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
