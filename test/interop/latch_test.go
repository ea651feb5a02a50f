// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// latchChannel is the channel of a latch.
func latchChannel(name string) string { return "redisson_countdownlatch__channel__{" + name + "}" }

// waits returns the result of a wait for a round.
func waits(r countdown.Round) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- r.Wait(context.Background()) }()
	return returned
}

// P1, P6: a latch opens for both sides, and not before, whichever side starts it and whichever counts last.
func TestALatchThatEitherSideOpensWakesBoth(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		s := newSession(t, server)
		for _, starter := range []string{"java", "go"} {
			for _, last := range []string{"java", "go"} {
				name := starter + "-" + last
				l := countdown.New(s, name)
				if starter == "java" {
					require.Equal(t, "true", p.must(t, "a", "latch-start", name, 4))
					_, err := l.Start(locktest.Context(t), 4)
					require.ErrorIs(t, err, signalbox.ErrRunning)
				} else {
					_, err := l.Start(locktest.Context(t), 4)
					require.NoError(t, err)
					require.Equal(t, "false", p.must(t, "a", "latch-start", name, 4))
				}
				r, err := l.Round(locktest.Context(t))
				require.NoError(t, err)
				waiting, reply := waits(r), p.send("waiter", "latch-wait", name, time.Hour.Milliseconds())
				redistest.Await(t, "both listen", func() bool { return locktest.Listeners(t, server, latchChannel(name)) == 2 })
				steps := map[string]func(){
					"java": func() { p.must(t, "a", "latch-down", name) },
					"go": func() {
						_, err := r.CountDown(locktest.Context(t), "x")
						require.NoError(t, err)
					},
				}
				for i, step := range []string{"java", "go", starter, last} {
					require.Equal(t, strconv.Itoa(4-i), p.must(t, "a", "latch-count", name))
					left, err := r.Count(locktest.Context(t))
					require.NoError(t, err)
					require.Equal(t, 4-i, left)
					require.Empty(t, waiting)
					require.Empty(t, reply)
					steps[step]()
				}
				took(t, waiting)
				require.Equal(t, "true", p.take(t, reply))
				require.Equal(t, "0", p.must(t, "a", "latch-count", name))
				require.NoError(t, r.Wait(locktest.Context(t)))
				_, err = r.CountDown(locktest.Context(t), "x")
				require.ErrorIs(t, err, signalbox.ErrRoundOver)
				p.must(t, "a", "latch-down", name)
				require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"), "nothing is left")
			}
		}
	})
}
