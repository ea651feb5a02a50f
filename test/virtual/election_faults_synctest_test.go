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
	bubbleOfUsers(t, func(w *fixture) {
		const lease = election.DefaultLease
		term := leads(w, election.New(w.user().Session, "a", election.Value("x")))
		time.Sleep(time.Minute)
		w.scripts.Store(0)
		hours := time.Duration(redistest.Rounds(1, 10)) * time.Hour
		time.Sleep(hours)
		require.NoError(w, term.Err())
		leases := float64(hours / lease)
		require.InEpsilon(w, leases*4, float64(w.scripts.Load()), 0.05, "three renewals, and a write")
		require.LessOrEqual(w, resting(), 2, "of the timers and the subscription")
		observers := observing(w.Context(), election.New(w.user().Session, "a"))
		observing(w.Context(), election.New(w.user().Session, "a"))
		require.Equal(w, "x", (<-observers).Value)
		time.Sleep(time.Minute)
		w.scripts.Store(0)
		time.Sleep(10 * time.Minute)
		require.InEpsilon(w, 600/15*4+2*2*600/0.9, float64(w.scripts.Load()), 0.05, "two scripts a poll, of two sessions")
		require.Empty(w, observers)
		require.NoError(w, term.Resign())
	})
}

// P5: a value that was lost with its key is back within a lease, and keeps its number.
func TestLostValueComesBackWithinALease(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		e := election.New(w.user().Session, "a", election.Value("first"))
		term := leads(w, e)
		require.NoError(w, term.SetValue(w.Context(), "second"))
		for range 10 {
			time.Sleep(7 * time.Second)
			w.redis.Del(valueOf("a"))
			l, err := e.Leader(w.Context())
			require.NoError(w, err)
			require.Equal(w, term.Token(), l.Token)
			require.Empty(w, l.Value)
			time.Sleep(election.DefaultLease + 100*time.Millisecond)
			l, err = e.Leader(w.Context())
			require.NoError(w, err)
			require.Equal(w, "second", l.Value)
		}
	})
}

// P4, P5, P6: whichever request of a term fails, and however: each call returns, the value of the term is the last one that
// was set, and the next candidate leads.
func TestTermSurvivesAFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	// session/hello, enter, put twice or three times, SUBSCRIBE, read and describe twice or three times, leave, clear.
	const steps = 14
	eachKind(t, func(w *fixture, kind redistest.FaultKind) {
		calm := w.user()
		s := w.faultySession(redistest.Commands("EVAL", "EVALSHA", "SUBSCRIBE"))
		for at := 1; at <= steps; at++ {
			name := fmt.Sprint(at)
			mine, theirs := election.New(s.Session, name, election.Value("first")), election.New(calm.Session, name)
			s.arm(kind, at)
			term := leads(w, mine)
			next := candidate(w, theirs)
			require.NoError(w, term.SetValue(w.Context(), "second"))
			require.NoError(w, term.SetValue(w.Context(), "third"))
			ctx, cancel := context.WithCancel(w.Context())
			seen := observing(ctx, mine)
			for s := range seen {
				require.NoError(w, s.err)
				if s.Value == "third" {
					break
				}
			}
			l, err := theirs.Leader(w.Context())
			require.NoError(w, err)
			require.Equal(w, "third", l.Value)
			require.Equal(w, term.Token(), l.Token)
			require.NoError(w, w.resigns(term))
			second := <-next
			for s := range seen {
				require.NoError(w, s.err)
				if s.Token == second.Token() {
					break
				}
			}
			cancel()
			require.Greater(w, second.Token(), term.Token())
			l, err = theirs.Leader(w.Context())
			require.NoError(w, err)
			require.Empty(w, l.Value, "at %d", at)
			require.NoError(w, second.Resign())
			_, err = theirs.Leader(w.Context())
			require.ErrorIs(w, err, signalbox.ErrNotHeld)
			s.heal()
		}
	})
}

// resigns ends a term early. That the server did not confirm it is no error: it is repeated.
func (w *fixture) resigns(term election.Term) error {
	if err := term.Resign(); !errors.Is(err, signalbox.ErrUnconfirmed) {
		return err
	}
	return nil
}

// electionStates are the states in which a session may be closed that has a candidate, a leader or an observer.
func electionStates() map[string]closeCase {
	observes := func(w *fixture, s *signalbox.Session) <-chan error {
		return w.later(func() (last error) {
			for _, last = range election.New(s, "a").Observe(context.Background()) { // the last error says how it ends
			}
			return last
		})
	}
	runs := func(w *fixture, s *signalbox.Session) <-chan error {
		return w.later(func() error {
			return election.New(s, "a").Run(context.Background(), func(ctx context.Context, _ election.Term) error {
				<-ctx.Done()
				return nil
			})
		})
	}
	return map[string]closeCase{
		"Leads": func(w *fixture, s *signalbox.Session, _ *wire) []<-chan error {
			return []<-chan error{runs(w, s), runs(w, s), observes(w, s)}
		},
		"LeadsFrozen": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			defer link.goSilent()
			return []<-chan error{runs(w, s), runs(w, s), observes(w, s)}
		},
		"SteppedDown": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			all := []<-chan error{runs(w, s), observes(w, s)}
			link.goSilent()
			time.Sleep(11 * time.Second)
			return all
		},
		"ValueOnItsWay": func(w *fixture, s *signalbox.Session, link *wire) []<-chan error {
			term := leads(w, election.New(s, "a"))
			link.goSilent()
			return []<-chan error{w.later(func() error { return term.SetValue(context.Background(), "x") })}
		},
	}
}
