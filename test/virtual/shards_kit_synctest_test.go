// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

// shardLog records what the functions of all members do, and what no guarantee allows.
type shardLog struct {
	w       *fixture
	excuses func(*shardRun) bool // whether another function may begin beside one; nil: no
	onEnd   func(*shardRun)      // is called when a context has ended; nil: nothing is

	mu struct {
		sync.Mutex
		running    map[string][]*shardRun // the functions that have not returned, by shard
		ended      map[string]time.Time   // when the last function of a shard returned
		tokens     map[string]uint64      // the greatest token of each shard
		starts     int                    // how many functions began with a new token
		moves      int                    // how many functions were not the first of their shard
		late       int                    // how many began beside one whose lease was lost
		gaps       []time.Duration        // the times between the end of a function and the start of the next ownership
		causes     []error                // why contexts ended
		violations []string
	}
}

// shardRun is one function that has not returned.
type shardRun struct {
	shard  shards.Shard
	ctx    context.Context
	member *shardMember
	began  time.Time
	ended  time.Time // when its context ended
}

func newShardLog(w *fixture) *shardLog {
	l := &shardLog{w: w}
	l.mu.running, l.mu.ended, l.mu.tokens = make(map[string][]*shardRun), make(map[string]time.Time), make(map[string]uint64)
	return l
}

func (l *shardLog) violatedLocked(format string, args ...any) {
	l.mu.violations = append(l.mu.violations, fmt.Sprintf(format, args...))
}

// begin records the start of a function.
func (l *shardLog) begin(m *shardMember, ctx context.Context, s shards.Shard) *shardRun { //nolint:revive // the member is the subject
	l.mu.Lock()
	defer l.mu.Unlock()
	name := s.Name()
	for _, other := range l.mu.running[name] {
		switch {
		case other.member == m:
			l.violatedLocked("shard %s: two functions in one member", name)
		case other.member.isStopped():
		case other.ctx.Err() == nil && (l.excuses == nil || !l.excuses(other)):
			l.violatedLocked("shard %s: two live contexts", name)
		case other.ctx.Err() != nil && !errors.Is(other.shard.Err(), signalbox.ErrLost) && (l.excuses == nil || !l.excuses(other)):
			l.violatedLocked("shard %s: a function beside one that drains", name)
		default:
			l.mu.late++
		}
	}
	token, known := l.mu.tokens[name]
	if s.Token() < token {
		l.violatedLocked("shard %s: token %d after %d", name, s.Token(), token)
	}
	if s.Token() > token {
		l.mu.starts++
		if known {
			l.mu.moves++
			l.mu.gaps = append(l.mu.gaps, time.Since(l.mu.ended[name]))
		}
		l.mu.tokens[name] = s.Token()
	}
	r := &shardRun{shard: s, ctx: ctx, member: m, began: time.Now()}
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if r.ended = time.Now(); l.onEnd != nil {
			l.onEnd(r)
		}
	})
	l.mu.running[name] = append(l.mu.running[name], r)
	return r
}

// end records that a function returned.
func (l *shardLog) end(r *shardRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := r.shard.Name()
	l.mu.running[name] = slices.DeleteFunc(l.mu.running[name], func(other *shardRun) bool { return other == r })
	l.mu.ended[name] = time.Now()
	l.mu.causes = append(l.mu.causes, context.Cause(r.ctx))
}

// reset begins to count anew, and returns what was counted.
func (l *shardLog) reset() (moves int, gaps []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	moves, gaps = l.mu.moves, l.mu.gaps
	l.mu.starts, l.mu.moves, l.mu.late, l.mu.gaps, l.mu.causes = 0, 0, 0, nil, nil
	slices.Sort(gaps)
	return moves, gaps
}

// late returns how many functions began beside one whose lease was lost.
func (l *shardLog) late() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.late
}

// requireSound requires that nothing happened which no guarantee allows.
func (l *shardLog) requireSound() {
	l.w.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Empty(l.w, l.mu.violations)
}

// owned returns how many shards have a function that may work.
func (l *shardLog) owned() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, runs := range l.mu.running {
		if slices.ContainsFunc(runs, func(r *shardRun) bool { return r.ctx.Err() == nil && !r.member.isStopped() }) {
			n++
		}
	}
	return n
}

// shardMember is a member that runs in a session of its own.
type shardMember struct {
	queueUser

	log      *shardLog
	group    *shards.Group
	cancel   context.CancelFunc
	returned chan error
	drain    time.Duration                 // how long a function needs to return
	over     chan struct{}                 // closed when the test ends: drains do, too
	joined   atomic.Pointer[shards.Member] // nil until Join has returned, and if the member is one of Run

	mu struct {
		sync.Mutex
		killed bool
		owned  map[string]struct{}
	}
}

// member starts a member of the group "a" in a session of its own. Functions wait for the end of their contexts, and drain.
func (l *shardLog) member(set shards.Set, drain time.Duration, options ...signalbox.LockOption) *shardMember {
	l.w.Helper()
	m := l.newMember(set, drain, options...)
	m.run(m.wait)
	return m
}

// joins is member by way of Join and Changes.
func (l *shardLog) joins(set shards.Set, drain time.Duration, options ...signalbox.LockOption) *shardMember {
	l.w.Helper()
	m := l.newMember(set, drain, options...)
	work := m.recorded(m.wait)
	m.start(func(ctx context.Context) error {
		joined, err := m.group.Join(ctx)
		if err != nil {
			return err
		}
		m.joined.Store(joined)
		defer context.AfterFunc(ctx, func() { _ = joined.Leave(context.Background()) })()
		var functions sync.WaitGroup
		for c := range joined.Changes() {
			if c.Kind == shards.Granted {
				functions.Go(func() {
					defer c.Shard.Release()
					_ = work(c.Shard.Bind(context.Background()), c.Shard)
				})
			}
		}
		functions.Wait()
		<-joined.Done()
		return ctx.Err()
	})
	return m
}

// died returns a view of a group with n shards, all of whose members have died just now.
func (l *shardLog) died(n int) *shards.Group {
	l.w.Helper()
	members := l.some(n, 2)
	g := shards.New(l.w.user().Session, "a", shards.Count(n))
	for _, m := range members {
		m.kill()
	}
	return g
}

func (l *shardLog) newMember(set shards.Set, drain time.Duration, options ...signalbox.LockOption) *shardMember {
	l.w.Helper()
	m := &shardMember{queueUser: l.w.user(), log: l, drain: drain, returned: make(chan error, 1), over: make(chan struct{})}
	m.mu.owned = make(map[string]struct{})
	m.group = shards.New(m.Session, "a", set, options...)
	return m
}

// run runs the member with that function.
func (m *shardMember) run(work func(context.Context, shards.Shard) error) {
	m.start(func(ctx context.Context) error { return m.group.Run(ctx, m.recorded(work)) })
}

// start lets the member run until its context ends.
func (m *shardMember) start(run func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	m.log.w.ends = append(m.log.w.ends, func() {
		close(m.over)
		cancel()
		m.wire.heal()
	})
	go func() { m.returned <- run(ctx) }()
}

// recorded returns work whose calls are recorded.
func (m *shardMember) recorded(work func(context.Context, shards.Shard) error) func(context.Context, shards.Shard) error {
	return func(ctx context.Context, s shards.Shard) error {
		r := m.log.begin(m, ctx, s)
		defer m.log.end(r)
		m.mark(s.Name(), true)
		defer m.mark(s.Name(), false)
		return work(ctx, s)
	}
}

func (m *shardMember) mark(name string, owned bool) { //nolint:revive // a fact, not a switch
	m.mu.Lock()
	defer m.mu.Unlock()
	if owned {
		m.mu.owned[name] = struct{}{}
	} else {
		delete(m.mu.owned, name)
	}
}

// wait is a function that works until its context ends.
func (m *shardMember) wait(ctx context.Context, _ shards.Shard) error {
	<-ctx.Done()
	if m.drain == 0 {
		return nil // under the race detector Go 1.26 may crash if goroutines of a bubble select timers that are due already
	}
	select {
	case <-time.After(m.drain):
	case <-m.over:
	}
	return nil
}

// load returns for how many shards a function runs.
func (m *shardMember) load() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.owned)
}

// shards returns the shards for which a function runs.
func (m *shardMember) shards() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.mu.owned))
}

// kill makes the member as one whose process was killed: nothing of it reaches the server any more.
func (m *shardMember) kill() {
	m.mu.Lock()
	m.mu.killed = true
	m.mu.Unlock()
	m.wire.goSilent()
}

func (m *shardMember) isStopped() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.killed
}

// leave ends the member, and waits until it has left.
func (m *shardMember) leave() {
	m.log.w.Helper()
	m.cancel()
	require.ErrorIs(m.log.w, <-m.returned, context.Canceled)
}

// even reports whether the loads of these members differ by one at most, and are total in all.
func even(total int, members ...*shardMember) bool {
	least, most, sum := total, 0, 0
	for _, m := range members {
		n := m.load()
		least, most, sum = min(least, n), max(most, n), sum+n
	}
	return most-least <= 1 && sum == total
}

// untilEven waits until the loads are even, and returns how long that took.
func (l *shardLog) untilEven(total int, members ...*shardMember) time.Duration {
	l.w.Helper()
	began := time.Now()
	for !even(total, members...) {
		if time.Since(began) > 10*time.Minute {
			loads := make([]int, len(members))
			for i, m := range members {
				loads[i] = m.load()
			}
			require.FailNow(l.w, "the loads are not even", "%v", loads)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// at returns the value at that part of sorted values.
func at(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(float64(len(sorted))*part))]
}
