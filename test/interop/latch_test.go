// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
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
		s := locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
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
				redistest.Await(t, "both listen", func() bool { return listeners(t, server, latchChannel(name)) == 2 })
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

// awaitFence returns when a waiter in Go has found a latch running; see scripts/redisson/latch-read.
func awaitFence(t *testing.T, published <-chan string) {
	t.Helper()
	for {
		_, message, _ := strings.Cut(next(t, published), " ")
		if message != "0" && message != "1" {
			return
		}
	}
}

// P6: a Java process that starts the next round as soon as it is woken leaves no waiter in Go behind, in none of many rounds.
func TestRoundsThatFollowEachOtherWakeAllWaiters(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		p.must(t, "main", "latch-start", "a", 1)
		published := receive(t, server, latchChannel("a"))
		for range rounds {
			leave, waiting := joins(t, server, "a")
			awaitFence(t, published) // it knows that this round runs
			opened := p.send("main", "latch-wait", "a", time.Hour.Milliseconds())
			started := p.send("main", "latch-start", "a", 1)
			redistest.Await(t, "both listen", func() bool { return listeners(t, server, latchChannel("a")) == 3 })
			p.must(t, "worker", "latch-down", "a")
			require.Equal(t, "true", p.take(t, opened))
			require.Equal(t, "true", p.take(t, started))
			took(t, waiting)
			leave()
			// Messages after this one are of the next round: a poll of this round may have been under way
			// until now.
			server.MustDo(t, "PUBLISH", latchChannel("a"), "left")
			for message := ""; message != "left"; {
				_, message, _ = strings.Cut(next(t, published), " ")
			}
		}
	})
}

// joins waits at a latch from a process of its own, which leave ends: then the server has seen all that it sent.
func joins(t *testing.T, server *redistest.Server, name string) (leave func(), waiting <-chan error) {
	t.Helper()
	const process = "joins"
	client := server.Client(t, func(o *rueidis.ClientOption) {
		locktest.Steady(o)
		o.ClientName = process
	})
	s := locktest.SessionOf(t, client, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	return func() {
		require.NoError(t, s.Close(locktest.Context(t)))
		client.Close()
		redistest.Await(t, "the process is gone", func() bool {
			clients, _ := server.MustDo(t, "CLIENT", "LIST").(string)
			return !strings.Contains(clients, "name="+process)
		})
	}, waits(countdown.New(s, name).RoundOf(1))
}

// A latch that is deleted is open. A waiter in Go finds out by a poll. Java notifies no waiter, not even
// its own.
func TestALatchThatIsDeletedIsOpen(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		l := countdown.New(locktest.Session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout()))), "a")
		r, err := l.Start(locktest.Context(t), 2)
		require.NoError(t, err)
		waiting := waits(r)
		redistest.Await(t, "it listens", func() bool { return listeners(t, server, latchChannel("a")) == 1 })
		require.Equal(t, "true", p.must(t, "a", "latch-delete", "a"))
		took(t, waiting)
		p.must(t, "a", "latch-start", "a", 2)
		require.NoError(t, l.Reset(locktest.Context(t)))
		require.Equal(t, "0", p.must(t, "a", "latch-count", "a"))
		require.Equal(t, "true", p.must(t, "a", "latch-wait", "a", 0))
		require.Equal(t, int64(0), server.MustDo(t, "DBSIZE"))
	})
}

// P6: in a cluster too, if both sides publish to the same kind of channel. P9: a name that Redisson splits
// is refused.
func TestALatchOpensInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	for mode, c := range clusterModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachRelease(t, func(t *testing.T, release string) {
				p := newClusterPeer(t, release, cluster, mode)
				s := locktest.Session(t, cluster, signalbox.WithDefaults(c.option))
				require.ErrorIs(t, countdown.New(s, "{a}:b").Check(), signalbox.ErrBadName)
				for i := range 4 {
					name := fmt.Sprintf("%s-%s-%d", mode, release, i)
					r, err := countdown.New(s, name).Start(locktest.Context(t), 2)
					require.NoError(t, err)
					waiting, reply := waits(r), p.send("waiter", "latch-wait", name, time.Hour.Milliseconds())
					redistest.Await(t, "both listen", func() bool { return listenersOf(t, cluster, c.command, latchChannel(name)) == 2 })
					if i%2 == 0 {
						p.must(t, "a", "latch-down", name)
					}
					_, err = r.CountDown(locktest.Context(t), "x")
					require.NoError(t, err)
					if i%2 == 1 {
						p.must(t, "a", "latch-down", name)
					}
					took(t, waiting)
					require.Equal(t, "true", p.take(t, reply))
				}
			})
		})
	}
}
