// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// scene is what kinds of locks a walk meets on its name.
type scene struct {
	name    string
	kinds   func(w *walk) []lockKind
	endless []string // ends of the keys that may live for ever
	reads   bool
	counts  bool // tokens are counted and do not come from the clock
	// frail are the suffixes of keys without which the layout cannot say what is held: walks do not
	// lose them.
	frail []string
	// patience is for how much longer than usual the name may stay in use after a crash.
	patience int64
}

func scenes() []scene {
	return []scene{
		{name: "Exclusive", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&exclusiveKind{walk: w}} }},
		{name: "Quorum", reads: true, patience: longestLease, kinds: func(w *walk) []lockKind { return []lockKind{&quorumKind{walk: w}} }},
		{name: "ReadWrite", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&rwKind{walk: w}} }},
		{name: "Semaphore", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&permitKind{walk: w}} }},
		{name: "All", reads: true, patience: longestLease, kinds: func(w *walk) []lockKind {
			return []lockKind{&exclusiveKind{walk: w}, &rwKind{walk: w}, &quorumKind{walk: w}}
		}},
		{name: "Redisson", reads: true, kinds: func(w *walk) []lockKind {
			return []lockKind{&sharedKind{javaKind: javaKind{walk: w}}}
		}},
		{name: "SetNX", reads: true, kinds: func(w *walk) []lockKind { return []lockKind{&valueKind{javaKind{walk: w}}} }},
		{name: "RedissonFenced", reads: true, counts: true, endless: []string{"token"}, kinds: func(w *walk) []lockKind {
			return []lockKind{&sharedKind{javaKind: javaKind{walk: w}, fenced: true}}
		}},
		{
			name: "RedissonFair", reads: true, endless: []string{"queue", "deadlines"}, patience: redissonPatience,
			kinds: func(w *walk) []lockKind { return []lockKind{&javaFairKind{javaKind{walk: w}}} },
		},
		{name: "RedissonReadWrite", reads: true, kinds: func(w *walk) []lockKind {
			return []lockKind{&javaRWKind{javaKind{walk: w}}}
		}},
		{
			// Java counts the free permits down. If the times of held permits are lost, no client
			// counts them up again.
			name: "RedissonSemaphore", reads: true, endless: []string{"permits", "timeouts"}, frail: []string{"timeouts"},
			kinds: func(w *walk) []lockKind { return []lockKind{&javaPermitKind{javaKind{walk: w}}} },
		},
		{
			name: "RedissonAll", reads: true, endless: []string{"queue", "deadlines"}, patience: redissonPatience,
			kinds: func(w *walk) []lockKind {
				return []lockKind{&sharedKind{javaKind: javaKind{walk: w}}, &javaFairKind{javaKind{walk: w}}, &javaRWKind{javaKind{walk: w}}}
			},
		},
	}
}

// redissonPatience is how long the tickets of Redisson's dead waiters may keep others out: each is valid
// for 300 s.
const redissonPatience = 40 * 300 * second

// steps is how many steps a walk has before its end.
func steps() int { return redistest.Rounds(60, 150) }

// run takes one walk.
func (s scene) run(tb testing.TB, seed uint64) {
	tb.Helper()
	s.walk(tb, seed)
}

// walk takes one walk, and returns it.
func (s scene) walk(tb testing.TB, seed uint64) *walk {
	tb.Helper()
	w := newWalk(tb, s, seed)
	for range steps() {
		w.step()
	}
	w.end()
	tally.Add("seeds", "walks", 1)
	tally.Add("virtual", "steps of walks", steps())
	return w
}

// trace returns a hash of all requests, replies and messages of a walk.
func (w *walk) trace() string {
	sum := sha256.Sum256([]byte(strings.ReplaceAll(strings.Join(w.history, "\n"), w.name, "")))
	return hex.EncodeToString(sum[:])
}

// The same seed is the same walk, to the last byte of each request and reply.
func TestASeedIsAWalk(t *testing.T) {
	t.Parallel()
	seed := locktest.Seed(t) | loses | jumps
	for _, s := range scenes()[:5] {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			first := s.walk(t, seed).trace()
			require.NotEqual(t, first, s.walk(t, seed+1<<20).trace(), "another seed is the same walk")
			for range redistest.Rounds(20, 100) - 1 {
				require.Equal(t, first, s.walk(t, seed).trace(), "SIGNALBOX_SEED=%d go test ./walks -run %s", seed, t.Name())
			}
			tally.Add("replays", s.name, redistest.Rounds(20, 100))
		})
	}
}

// P1, P2, P4 and P9, whatever is lost, late or repeated: each value that a script wrote can be read
// by every script that may meet it, and the name becomes usable again.
func TestEveryWalkEndsWithAUsableName(t *testing.T) {
	t.Parallel()
	walks := uint64(redistest.Rounds(4, 8)) // one or two for each combination of disturbances
	for _, s := range scenes() {
		for seed := range walks {
			t.Run(fmt.Sprintf("%s/%d", s.name, seed), func(t *testing.T) {
				t.Parallel()
				s.run(t, seed)
			})
		}
	}
}

// The long form: walks from the seed of SIGNALBOX_SEED on, or of one that is drawn. A failure names its own. With
// SIGNALBOX_WALK=Exclusive/123 only that walk is taken.
func TestSoakEveryWalkEndsWithAUsableName(t *testing.T) {
	t.Parallel()
	length, err := time.ParseDuration(os.Getenv("SIGNALBOX_SOAK"))
	only := os.Getenv("SIGNALBOX_WALK")
	if err != nil && only == "" {
		t.Skip("a long test: set SIGNALBOX_SOAK to a time, such as 10m")
	}
	seed := locktest.Seed(t)
	for ends := time.Now().Add(length); ; seed++ {
		t.Run("Walks", func(t *testing.T) {
			for _, s := range scenes() {
				name, its, _ := strings.Cut(only, "/")
				if n, err := strconv.ParseUint(its, 10, 64); err == nil {
					seed = n
				}
				t.Run(fmt.Sprintf("%s/%d", s.name, seed), func(t *testing.T) {
					t.Parallel()
					if only == "" || name == s.name {
						s.run(t, seed)
					}
				})
			}
		})
		if t.Failed() || !time.Now().Before(ends) {
			return
		}
	}
}
