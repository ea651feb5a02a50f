// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	// randomShards is how many shards there are at first, and manyShards in some seeds: names of several pages, and more than a call changes.
	randomShards, manyShards = 40, 200
	// randomSteps is how many steps a seed has.
	randomSteps = 40
	// mostRandomMembers is how many members there are at most.
	mostRandomMembers = 12
	// mostDrain is how long a function needs to return at most, unless it hangs.
	mostDrain = 3 * time.Second
	// mostRetry is for how long Run pauses after an error at most.
	mostRetry = 5 * time.Second
)

// shardStep is one thing that happens to a group.
type shardStep struct {
	at            int           // the index among the steps of the seed
	after         time.Duration // the pause before it
	verb          string
	member, shard uint64 // the one of the members and shards that exist then, modulo their number
	argument      uint64 // the seed of what else the verb draws
}

// String returns the step as a line of a report.
func (s shardStep) String() string {
	return fmt.Sprintf("%2d  after %-12v %-14s member %d, shard %d, argument %d", s.at, s.after.Round(time.Millisecond), s.verb, s.member%100, s.shard%100, s.argument)
}

// draw returns what the verb draws from.
func (s shardStep) draw() *rand.Rand { return rand.New(rand.NewPCG(s.argument, 2)) }

// shardPlan is a seed: all of it is drawn before the first step.
type shardPlan struct {
	seed    uint64
	isGiven bool                   // a plan that is played again, and says what it does
	named   bool                   // the shards have names
	jumps   bool                   // the server's clock is set
	limit   time.Duration          // DrainLimit
	mixed   bool                   // members have different options, of which those of the last one that joined count
	size    int                    // how many shards there are at first
	options []signalbox.LockOption // the options of every member
	steps   []shardStep
}

// drawShards draws the plan of a seed from verbs.
func drawShards(seed uint64, verbs []string) *shardPlan {
	random := rand.New(rand.NewPCG(seed, 1))
	p := &shardPlan{seed: seed, jumps: seed%2 == 1, named: seed%3 == 2, options: []signalbox.LockOption{shards.Retry(100*time.Millisecond, mostRetry)}}
	if p.size = randomShards; random.IntN(4) == 0 {
		p.size = manyShards
	}
	if random.IntN(4) == 0 {
		p.limit = 5 * time.Second
		p.options = append(p.options, shards.DrainLimit(p.limit))
	}
	p.mixed = random.IntN(4) == 0
	if random.IntN(4) == 0 {
		p.options = append(p.options, shards.Moves((1+random.IntN(8))*p.size/randomShards))
	}
	if random.IntN(4) == 0 {
		p.options = append(p.options, shards.RebalanceDelay(0))
	}
	for range randomSteps {
		most := 10 * time.Second
		if random.IntN(8) == 0 {
			most = time.Minute
		}
		s := shardStep{
			len(p.steps), time.Millisecond + time.Duration(random.Int64N(int64(most))), verbs[random.IntN(len(verbs))],
			random.Uint64(), random.Uint64(), random.Uint64(),
		}
		if s.verb != "clock" || p.jumps {
			p.steps = append(p.steps, s)
		}
	}
	return p
}

// optionsOf returns the options of one member.
func (p *shardPlan) optionsOf(random *rand.Rand) []signalbox.LockOption {
	options := slices.Clone(p.options)
	if p.mixed { // all but Retry
		options = append(options[:1], slices.DeleteFunc(options[1:], func(signalbox.LockOption) bool { return random.IntN(2) == 0 })...)
	}
	return options
}

// only returns the plan with those steps alone.
func (p *shardPlan) only(steps []shardStep) *shardPlan {
	other := *p
	other.steps = steps
	return &other
}

// walk is what SIGNALBOX_WALK is set to, to play these steps alone.
func (p *shardPlan) walk() string {
	all := make([]string, len(p.steps))
	for i, s := range p.steps {
		all[i] = strconv.Itoa(s.at)
	}
	return fmt.Sprintf("%d/%s", p.seed, strings.Join(all, ","))
}

// givenPlan returns the plan of SIGNALBOX_WALK, or nil.
func givenPlan(t *testing.T, verbs []string) *shardPlan {
	t.Helper()
	text, list, part := strings.Cut(os.Getenv("SIGNALBOX_WALK"), "/")
	if text == "" {
		return nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	p := drawShards(seed, verbs)
	p.isGiven = true
	if part {
		listed := "," + list + ","
		p.steps = slices.DeleteFunc(p.steps, func(s shardStep) bool { return !strings.Contains(listed, fmt.Sprintf(",%d,", s.at)) })
	}
	return p
}

// shorten leaves out steps, halves first and single ones last, as long as what is left fails.
func shorten(p *shardPlan, fails func(*shardPlan) bool) *shardPlan {
	for size := len(p.steps) / 2; size > 0; size /= 2 {
		for at := 0; at < len(p.steps); {
			less := p.only(slices.Concat(p.steps[:at], p.steps[min(at+size, len(p.steps)):]))
			if fails(less) {
				p = less
			} else {
				at += size
			}
		}
	}
	return p
}

// rowCounts counts what happened in all seeds: each verb with its outcome, and what the group did about it.
type rowCounts struct {
	mu   sync.Mutex
	rows map[string]int
}

func newTally() *rowCounts { return &rowCounts{rows: make(map[string]int)} }

func (t *rowCounts) add(row string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rows[row]++
}

// require requires that each row was seen.
func (t *rowCounts) require(tb testing.TB, rows ...string) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, row := range slices.Sorted(maps.Keys(t.rows)) {
		tb.Logf("%7d  %s", t.rows[row], row)
	}
	for _, row := range rows {
		require.Positive(tb, t.rows[row], "%q did not happen", row)
	}
}

// play plays a plan, and returns what happened that no guarantee allows. It fails the test only for what a plan cannot cause.
func (p *shardPlan) play(t *testing.T, counts *rowCounts) (violations []string) {
	t.Helper()
	bubbleOfUsers(t, func(w *fixture) {
		g := newRandomGroup(w, p, counts)
		g.embedded()
		epoch := time.Now()
		violations = g.play()
		tally.Time("virtual", "time", time.Since(epoch))
	})
	return violations
}

// playShards plays the plan of a seed. One that fails is shortened, and the test says how to play what is left.
func playShards(t *testing.T, p *shardPlan, counts *rowCounts) {
	t.Helper()
	violations := p.play(t, counts)
	if len(violations) == 0 {
		return
	}
	if p.isGiven {
		t.Error(strings.Join(violations, "\n"))
		return
	}
	least, last := shorten(p, func(less *shardPlan) bool {
		return slices.ContainsFunc(make([]struct{}, 2), func(struct{}) bool { return len(less.play(t, newTally())) > 0 }) // polls are spread at random
	}), violations
	if again := least.play(t, newTally()); len(again) > 0 {
		last = again
	}
	text := fmt.Sprintf("first:\n%s\nshortened:\n%s\nSIGNALBOX_WALK=%s go test ./virtual -run TestShardsUnderRandomEvents -v", strings.Join(violations, "\n"), strings.Join(last, "\n"), least.walk())
	for _, s := range least.steps {
		text += "\n" + s.String()
	}
	t.Error(text)
}

// P1, P3, P5, and guarantees 1 to 14: members come, leave, die and lose touch at random, functions return, fail, hang and
// give shards away, settings and the set change, and the server loses data, memory and time. SIGNALBOX_WALK=123 plays
// that seed alone, and 123/4,9 two of its steps.
func TestShardsUnderRandomEvents(t *testing.T) {
	t.Parallel()
	verbs, counts := randomVerbs(), newTally()
	if p := givenPlan(t, verbs); p != nil {
		playShards(t, p, counts)
		counts.require(t)
		return
	}
	for seed := range uint64(redistest.Rounds(2, 14)) {
		playShards(t, drawShards(seed, verbs), counts)
	}
	if !redistest.Quick() {
		counts.require(t, requiredRows()...)
	}
}

// Seeds of TestShardsUnderRandomEvents, one after the other.
func TestSoakShardsUnderRandomEvents(t *testing.T) {
	t.Parallel()
	more, verbs, counts := locktest.Soak(t), randomVerbs(), newTally()
	first := locktest.Seed(t)
	seed := first
	for ; more(); seed++ {
		began := time.Now()
		playShards(t, drawShards(seed, verbs), counts)
		tally.Time("virtual", "on the wall", time.Since(began))
		tally.Add("seeds", "shards", 1)
	}
	t.Logf("%d seeds from %d on", seed-first, first)
	counts.require(t)
	counts.mu.Lock()
	defer counts.mu.Unlock()
	for row, n := range counts.rows {
		tally.Add("shards", row, n)
	}
}
