// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/wire/wiretest"
)

// steps is how many requests a round takes for whoever starts it, counts down and waits: session/hello, start, count
// twice, look, SUBSCRIBE, look, and a look a second later.
const steps = 8

// trial is a round with a fault at one of its requests.
type trial struct {
	at        int
	proxy     *redistest.Proxy
	armed     *redistest.Armed
	struck    *countdown.Latch // behind the proxy
	untouched *countdown.Latch
}

// P4, P5, P6, H13: whichever request of a round is struck, and by whatever befalls a wire: each step is answered, each
// id counts once, there is one round, and all who wait are told.
func TestARoundSurvivesAFaultAtEveryStep(t *testing.T) {
	t.Parallel()
	sweep(t)
}

func TestSoakARoundSurvivesAFaultAtEveryStep(t *testing.T) { //nolint:paralleltest // has the machine to itself
	rounds := 0
	for more := locktest.Soak(t); more(); rounds++ {
		t.Run(fmt.Sprint(rounds), sweep)
	}
	t.Logf("%d sweeps", rounds)
}

func sweep(t *testing.T) {
	t.Helper()
	for _, kind := range redistest.Kinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			wiretest.LoadScripts(t, server)
			calm := locktest.Session(t, server)
			trials := make([]trial, steps)
			for i := range trials {
				name, proxy := fmt.Sprint("swept/", i+1), redistest.NewProxy(t, server.Addr())
				proxy.SetMatch(redistest.Commands("EVAL", "EVALSHA", "SUBSCRIBE"))
				trials[i] = trial{
					at: i + 1, proxy: proxy,
					struck:    countdown.New(locktest.Session(t, proxy), name),
					untouched: countdown.New(calm, name),
					armed:     proxy.Arm(redistest.Fault{Kind: kind, At: i + 1, Delay: 1300 * time.Millisecond}),
				}
			}
			ctx := long(t)
			locktest.Together(t, len(trials), func(i int) error {
				if err := trials[i].play(ctx); err != nil {
					return fmt.Errorf("at request %d: %w", trials[i].at, err)
				}
				return nil
			})
		})
	}
}

// play runs one round.
func (tr *trial) play(ctx context.Context) error {
	l, calm := tr.struck, tr.untouched
	r, err := l.Start(ctx, 3)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	for i, id := range []string{"a", "b"} {
		left, err := r.CountDown(ctx, id)
		if err != nil || left != 2-i {
			return fmt.Errorf("count down %s: %d left, %w", id, left, err)
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx) }()
	if !redistest.Became(limit, tr.armed.HasFired) {
		return fmt.Errorf("there were %d requests, and none was struck", tr.proxy.Requests())
	}
	if len(waited) > 0 {
		return fmt.Errorf("woken early: %w", <-waited)
	}
	theirs, err := calm.Round(ctx)
	if err != nil || theirs.ID() != r.ID() {
		return fmt.Errorf("another round: %w", err)
	}
	left, err := theirs.CountDown(ctx, "c")
	if err != nil || left != 0 {
		return fmt.Errorf("the last count-down: %d left, %w", left, err)
	}
	if err := <-waited; err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	next, err := calm.Start(ctx, 1)
	if err != nil {
		return fmt.Errorf("the next start: %w", err)
	}
	if _, err := calm.RoundOf(r.ID()).CountDown(ctx, "a"); !errors.Is(err, signalbox.ErrRoundOver) {
		return fmt.Errorf("a late worker: %w", err)
	}
	if left, err := next.Count(ctx); err != nil || left != 1 {
		return fmt.Errorf("the next round has %d left: %w", left, err)
	}
	return nil
}
