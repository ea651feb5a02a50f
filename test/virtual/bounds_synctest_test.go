// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// boundRow says which values an argument of the API takes, and how a test passes one.
type boundRow struct {
	least, most int64               // a value beyond these is an error
	refuses     func(v int64) error // what a value is refused with; nil: ErrBadOption beyond least and most
	// use passes a value to a call and uses what it returns. It returns the first error of the library.
	use func(b *boundTrial, v int64) error
	// An option has these in the place of use. Each kind that has the option uses it.
	option func(v int64) signalbox.LockOption
	kinds  []string
	leasts map[string]int64 // the least value of kinds with another one
}

// boundTrial is a bubble in which values of an argument are tried, one after the other.
type boundTrial struct {
	*redlockServers

	s, other []*signalbox.Session // the session under test, and that of another process
	name     string               // a name of its own for each value
}

const (
	year = 365 * 24 * time.Hour
	// boundSpan is for how long the use of a value is watched.
	boundSpan = 5 * time.Second
	// mostScripts is how many scripts a server may be sent in that time: leases of 100 ms are renewed 30 times a second.
	mostScripts = 60 * int64(boundSpan/time.Second)
	// greatestLife is how long a key may live, unless an option asks for longer: outcomes and rounds have a day by default. A group without
	// members is kept for a week.
	greatestLife, groupLife = 24*time.Hour + time.Minute, 7 * 24 * time.Hour
	// longestKeep is the longest time for which an option keeps a key.
	longestKeep = 30 * 24 * time.Hour
)

// extremes are what each argument is tried with, besides what is at its bounds.
var extremes = []int64{
	math.MinInt64, -1, 0, 1, 1500, int64(time.Millisecond) + 1, int64(time.Second) + 1, math.MaxUint32 + 1, int64(year), 1 << 53, math.MaxInt64 - 1, math.MaxInt64,
}

// values returns what to try an argument with.
func (r *boundRow) values(least int64) []int64 {
	all := slices.Clone(extremes)
	if r.least > math.MinInt64 {
		all = append(all, least-1, least)
	}
	if r.most < math.MaxInt64 {
		all = append(all, r.most, r.most+1)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Each number, duration and time of the API is tried at its bounds, beyond them, and at the ends of its type. It is used as its doc says, or refused.
// Nothing panics, every call returns, no key lives for longer than it should, no server is asked without pause, and another process
// uses the same name afterwards.
func TestEveryNumberOfTheAPIHasBounds(t *testing.T) {
	t.Parallel()
	for name, row := range boundRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.use != nil {
				row.try(t, 1, row.least, row.use)
				return
			}
			for _, kind := range row.kinds {
				t.Run(kind, func(t *testing.T) {
					t.Parallel()
					least, special := row.leasts[kind]
					if !special {
						least = row.least
					}
					row.try(t, serversOf(kind), least, func(b *boundTrial, v int64) error {
						use := boundUses[kind]
						err := use(b, b.s, row.option(v))
						require.NoError(b, use(b, b.other), "another process, after %d", v)
						return err
					})
				})
			}
		})
	}
}

func serversOf(kind string) int {
	if kind == "redlock" {
		return 3
	}
	return 1
}

// try tries all values in a bubble.
func (r *boundRow) try(t *testing.T, servers int, least int64, use func(b *boundTrial, v int64) error) {
	t.Helper()
	bubbleOf(t, servers, func(rs *redlockServers) {
		b := newBoundTrial(rs)
		for _, v := range r.values(least) {
			b.name = fmt.Sprintf("%d", v)
			want := r.refusal(least, v)
			before := b.keys()
			err := use(b, v)
			if want == nil {
				require.NoError(b, err, v)
			} else {
				require.ErrorIs(b, err, want, v)
			}
			for key, life := range b.keys() {
				require.Positive(b, life, "%d: the key %q never ends", v, key)
				longest := max(greatestLife, time.Duration(min(v, int64(longestKeep)))+time.Minute, before[key])
				if strings.Contains(key, ":shards") {
					longest = groupLife
				}
				require.LessOrEqual(b, life, longest, "%d: %q", v, key)
			}
		}
	})
}

// refusal returns what v is to be refused with, or nil.
func (r *boundRow) refusal(least, v int64) error {
	switch {
	case r.refuses != nil:
		return r.refuses(v)
	case v < least || v > r.most:
		return signalbox.ErrBadOption
	default:
		return nil
	}
}

func newBoundTrial(rs *redlockServers) *boundTrial {
	for _, f := range rs.servers {
		long := time.Now().Add(-48 * time.Hour).UnixMicro() // longer than any lease
		require.NoError(rs, f.redis.Set("sb:epoch", fmt.Sprintf("sb1e%016d%016d", long, long)))
		f.redis.SetTTL("sb:epoch", groupLife)
		f.redis.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
			switch {
			case command == "WAIT" && c.ClientName != runName: // as with as many replicas
				n, err := strconv.Atoi(args[0])
				wait, failed := strconv.Atoi(args[1])
				if err != nil || failed != nil || wait <= 0 || wait > int(time.Minute.Milliseconds()) {
					c.WriteError("ERR " + strings.Join(args, " "))
					return true
				}
				c.WriteInt(n)
				return true
			case strings.HasPrefix(command, "EVAL"):
				f.redis.SetTime(time.Now())
				f.scripts.Add(1)
			}
			return false
		})
	}
	b := &boundTrial{redlockServers: rs}
	b.s, _ = rs.process(quiet)
	b.other, _ = rs.process(quiet)
	return b
}

// keys returns how long each key of the servers lives; 0 for ever.
func (b *boundTrial) keys() map[string]time.Duration {
	all := make(map[string]time.Duration)
	for i, f := range b.servers {
		f.redis.SetTime(time.Now())
		for _, key := range f.redis.Keys() {
			if key != "sb:epoch" {
				all[strconv.Itoa(i)+" "+key] = f.redis.TTL(key)
			}
		}
	}
	return all
}

// watch lets time pass, and requires that no server is asked without pause.
func (b *boundTrial) watch() {
	b.Helper()
	before := make([]int64, len(b.servers))
	for i, f := range b.servers {
		before[i] = f.scripts.Load()
	}
	time.Sleep(boundSpan)
	for i, f := range b.servers {
		require.Less(b, f.scripts.Load()-before[i], mostScripts, "scripts in %v, with %s", boundSpan, b.name)
	}
}

// returnsWithin returns the error of a call, which must return in time.
func (b *boundTrial) returnsWithin(limit time.Duration, call func() error) (err error) {
	b.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = call()
	}()
	select {
	case <-done:
		return err
	case <-time.After(limit):
		b.Fatalf("%s: the call has not returned after %v", b.name, limit)
		return nil
	}
}

// limited returns a context that ends after d.
func (b *boundTrial) limited(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.Cleanup(cancel)
	return ctx
}

// A context whose deadline is as far away as a time can be is one that does not end.
func TestEveryCallBearsADeadlineInCenturies(t *testing.T) {
	t.Parallel()
	for _, c := range calls() {
		if c.class == leaves {
			continue // Close waits for holders until then
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, far := range []time.Time{time.Now().Add(math.MaxInt64), time.Unix(1<<40, 0)} {
				ended, _ := c.play(t, healthy, func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithDeadline(ctx, far) })
				is, _ := c.read(t, healthyCell(c.class), "")
				require.Equal(t, is, ended, far)
			}
		})
	}
}

// healthyCell returns how calls of a class end on healthy servers if their context does not end.
func healthyCell(class callClass) string {
	return endings[slices.IndexFunc(endings, func(e expectedEnds) bool { return e.class == class && e.fault == healthy })].never
}
