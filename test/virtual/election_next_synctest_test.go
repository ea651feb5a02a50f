// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
)

// P6: the next leader leads one script and one message after the call of Resign, and observers see it by message as well.
func TestNextLeaderComesOneMessageAfterResign(t *testing.T) {
	t.Parallel()
	const latency = 20 * time.Millisecond
	bubbleOfUsers(t, func(f *fixture) {
		first, second, observer := f.user(), f.user(), f.user()
		for _, user := range []queueUser{first, second, observer} {
			user.wire.latency.Store(int64(latency))
		}
		elections := []*election.Election{
			election.New(first.Session, "a", election.Value("first")), election.New(second.Session, "a", election.Value("second")),
		}
		seen := observing(f.Context(), election.New(observer.Session, "a"))
		require.Zero(f, (<-seen).Token)
		term := leads(f, elections[0])
		for i := range 20 {
			next := candidate(f, elections[(i+1)%2])
			time.Sleep(time.Second + time.Duration(i)*77*time.Millisecond) // in whichever moment between two polls
			began := time.Now()
			resigned := make(chan error, 1)
			go func() { resigned <- term.Resign() }()
			led := <-next
			if i > 0 { // the server knows the scripts
				require.LessOrEqual(f, time.Since(began), 2*latency+5*time.Millisecond)
			}
			require.NoError(f, <-resigned)
			term = led
			for s := range seen {
				require.NoError(f, s.err)
				if s.Token == term.Token() && s.Value != "" {
					// The value is written in one trip, its message takes another, and the poll two.
					if i > 0 {
						require.LessOrEqual(f, s.at.Sub(began), 7*latency)
					}
					break
				}
			}
		}
		require.NoError(f, term.Resign())
	})
}

// P7: Run pauses longer after each term that is lost young, up to a second, and hardly after one that lasted.
func TestRunPausesLongerAfterEachLoss(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		mu := fair.New(f.user().Session, "a")
		ctx, cancel := context.WithCancel(f.Context())
		terms := make(chan election.Term)
		returned := f.later(func() error {
			return election.New(f.user().Session, "a").Run(ctx, func(ctx context.Context, term election.Term) error {
				terms <- term
				<-ctx.Done()
				return nil
			})
		})
		again := func(lasted time.Duration) time.Duration {
			term := <-terms
			time.Sleep(lasted)
			require.NoError(f, mu.ForceUnlock(f.Context()))
			<-term.Done()
			began := time.Now()
			term = <-terms
			took := time.Since(began)
			go func() { terms <- term }() // for the next call
			return took
		}
		first := again(0)
		require.Less(f, first, 100*time.Millisecond)
		var last time.Duration
		for range 12 {
			last = again(0)
			require.LessOrEqual(f, last, 1100*time.Millisecond)
		}
		require.GreaterOrEqual(f, last, 400*time.Millisecond)
		require.Less(f, again(election.DefaultLease+time.Second), 100*time.Millisecond)
		<-terms
		cancel()
		require.ErrorIs(f, <-returned, context.Canceled)
	})
}
