// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/shards"
)

// returnTime is the time within which members reach a server that lost its data, or whose clock was set: the two seconds of guarantee 1,
// and what a client needs to connect again.
const returnTime = 5 * time.Second

// settleTime is the time within which each member has polled, and so knows of a set that a caller has given the group.
const settleTime = 3 * time.Second

// randomMember is a member to which things happen. The lock of its randomGroup guards the fields.
type randomMember struct {
	*shardMember

	byRun   bool
	began   time.Time
	weight  int
	limit   int
	value   string
	latency time.Duration
	orders  map[string]chan shardOrder // what the function of a shard is to do
	barred  map[string]time.Time       // the time until which a shard may not come back
	pause   time.Time                  // the time until which its reader of Changes reads nothing
	faults  int                        // how many faults of its wire are not over
	faultAt time.Time                  // the end of the last one
	faulty  time.Time                  // the time since which its wire was not well for 3 s
	born    time.Time                  // the first function since its last lease was lost, or when a fault ended that may have lost it
	diedAt  time.Time                  // when it was killed
	era     int                        // a fault of an earlier one is over
	sent    [10]int64                  // the scripts that its client had called, in each of the last seconds
}

// shardOrder is what a function is to do.
type shardOrder func(ctx context.Context, s shards.Shard) error

// serverFaults are what can be done to the server.
type serverFaults struct {
	do     func(command ...string)
	full   func(isFull bool)
	moving func(isMoving bool)                   // makes the slot move, or is nil
	clock  func(step time.Duration)              // sets the clock, or is nil if it is that of the machine
	backup func() (restore func(keys ...string)) // keeps the data as it is, of which all or some keys are restored; or is nil
	slack  time.Duration                         // the time by which a busy machine may be late
}

// randomGroup is a group to which the steps of a plan happen.
type randomGroup struct {
	*shardLog

	plan   *shardPlan
	counts *rowCounts
	server serverFaults
	views  *shards.Group // the views of a session that no fault has
	calm   chan struct{} // closed when nothing happens any more
	calls  sync.WaitGroup
	kept   []func(...string) // restore the data as it was before the last steps
	nils   int               // how often in a row Health said nil, and must not have
	seen   int               // how many shards there were last; guarded by state

	state struct {
		sync.Mutex
		members   []*randomMember // the members that did not leave or die
		all       map[*shardMember]*randomMember
		latest    map[string]*ownership // the last ownership of each shard
		count     int                   // the set
		names     map[string]bool       // the set, if it has names; false: the name may be there
		isUnsure  bool                  // a call that sets the set has failed, or the server lost it when no member knew it
		isLost    bool                  // the server has lost names that had no owner since they were set
		isSetting bool                  // such a call is under way
		setAt     time.Time             // when the last one ended
		losses    int                   // how often the server has lost data
		poison    map[string]int        // how many owners of a shard are still to die
		isFull    int                   // how many faults of the server are not over
		refuses   [2]time.Time          // when the last one began, and when members have polled after it
		upsetAt   time.Time             // the last time that something happened by which shards may be without an owner for longer
		lostAt    time.Time             // the last time that the server lost data, or its clock was set
		olderAt   time.Time             // the last time that it had older data again
		unowned   map[string]time.Time  // the time since which a shard has no owner
		unread    map[string]time.Time  // the time since which no reader has taken a shard up, or its owner may have lost it
		idle      map[string]time.Time  // the same as unowned, while nothing keeps members from taking it
		tokens    map[string]uint64     // the tokens of the owners that were seen last
		ends      map[string]time.Time  // when the last ownership of each shard ended, by the views
		shown     *shards.View          // what Watch has yielded last
	}
}

// ownership is one ownership of a shard, over all calls of its function.
type ownership struct {
	member   *randomMember
	shard    shards.Shard
	returned time.Time // when the function returned last; the zero time while it runs
}

func newRandomGroup(w *fixture, p *shardPlan, counts *rowCounts) *randomGroup {
	g := &randomGroup{shardLog: newShardLog(w), plan: p, counts: counts, calm: make(chan struct{})}
	s := &g.state
	s.all, s.latest, s.poison = make(map[*shardMember]*randomMember), make(map[string]*ownership), make(map[string]int)
	s.unread = make(map[string]time.Time)
	s.unowned, s.idle, s.ends, s.tokens = make(map[string]time.Time), make(map[string]time.Time), make(map[string]time.Time), make(map[string]uint64)
	s.names, s.count = make(map[string]bool), randomShards
	for n := range randomShards {
		s.names[nameOf(n)] = true
	}
	g.views = shards.New(w.user().Session, "a", g.set())
	g.excuses, g.onEnd = g.mayBegin, g.requireCause
	return g
}

func nameOf(n int) string { return fmt.Sprint("name-", n) }

func (g *randomGroup) set() shards.Set {
	if !g.plan.named {
		return shards.Count(randomShards)
	}
	all := make([]string, randomShards)
	for n := range all {
		all[n] = nameOf(n)
	}
	return shards.Names(all...)
}

// embedded makes the faults those of the embedded server.
func (g *randomGroup) embedded() {
	var isFull, isMoving atomic.Bool
	var ahead atomic.Int64
	redis := g.w.redis
	g.w.refusesScripts(func(command string, args []string) string {
		is := func(script *scripts.Script) bool { return runs(script, command, args) }
		redis.SetTime(time.Now().Add(time.Duration(ahead.Load())))
		switch {
		case isFull.Load() && slices.ContainsFunc([]*scripts.Script{proto.ShardsJoinScript, proto.ShardsSyncScript, proto.ShardsResizeScript, proto.ShardsMoveScript}, is):
			return "OOM command not allowed when used memory > 'maxmemory'."
		case isMoving.Load() && args[1] != "1":
			return slotMoves
		default:
			return ""
		}
	})
	g.server = serverFaults{
		do:     func(command ...string) { run(redis.Server(), command) },
		full:   isFull.Store,
		moving: isMoving.Store,
		clock:  func(step time.Duration) { ahead.Add(int64(step)) },
		backup: func() func(...string) {
			kept := backupOf(redis)
			return func(keys ...string) {
				if len(keys) == 0 {
					kept.Restore(redis)
				}
				for _, key := range keys {
					if one, is := kept[key]; is {
						one.Restore(redis, key)
					}
				}
			}
		},
	}
}

// join starts a member, with the weight and limit of one like it if that is given.
func (g *randomGroup) join(random *rand.Rand, like ...*randomMember) *randomMember {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	m := &randomMember{weight: 1, limit: shards.MaxShards, byRun: random.IntN(2) == 0, began: time.Now(), value: fmt.Sprint("v", random.IntN(100))}
	m.orders, m.barred = make(map[string]chan shardOrder), make(map[string]time.Time)
	m.latency = upTo(20 * time.Millisecond)
	if random.IntN(3) == 0 {
		m.weight = 1 + random.IntN(3)
	}
	if random.IntN(8) == 0 {
		m.limit = 3 + random.IntN(10)
	}
	for _, other := range like {
		m.weight, m.limit = other.weight, other.limit
	}
	options := append(slices.Clip(g.plan.options), shards.Weight(m.weight), shards.Limit(m.limit), shards.Value(m.value))
	m.shardMember = g.newMember(g.set(), upTo(mostDrain), options...)
	m.wire.latency.Store(int64(m.latency))
	g.state.Lock()
	g.state.members, g.state.all[m.shardMember] = append(g.state.members, m), m
	g.state.Unlock()
	work := m.recorded(func(ctx context.Context, s shards.Shard) error { return g.work(m, ctx, s) })
	if m.byRun {
		m.start(func(ctx context.Context) error { return m.group.Run(ctx, work) })
	} else {
		m.start(func(ctx context.Context) error { return g.runByChanges(ctx, m, work) })
	}
	return m
}

// runByChanges is Run by way of Join and Changes.
func (g *randomGroup) runByChanges(ctx context.Context, m *randomMember, work func(context.Context, shards.Shard) error) error {
	joined, err := m.group.Join(ctx)
	if err != nil {
		return err
	}
	g.state.Lock()
	m.joined.Store(joined)
	g.state.Unlock()
	defer context.AfterFunc(ctx, func() { _ = joined.Leave(context.Background()) })()
	var functions sync.WaitGroup
	for c := range joined.Changes() {
		if c.Kind == shards.Granted {
			functions.Go(func() {
				defer c.Shard.Release()
				bound := c.Shard.Bind(context.Background())
				for bound.Err() == nil && !errors.Is(work(bound, c.Shard), errShardWork) {
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		g.awaitReading(m)
	}
	functions.Wait()
	<-joined.Done()
	return errors.Join(joined.Err(), ctx.Err())
}

// awaitReading blocks while the reader of a member reads nothing.
func (g *randomGroup) awaitReading(m *randomMember) {
	g.state.Lock()
	left := time.Until(m.pause)
	g.state.Unlock()
	select {
	case <-time.After(left):
	case <-g.calm:
	case <-m.over:
	}
}

// work is the function of all shards: it takes an order.
func (g *randomGroup) work(m *randomMember, ctx context.Context, s shards.Shard) error { //nolint:revive // the member is the subject
	order := make(chan shardOrder, 1)
	o := g.starts(m, s, order)
	defer func() {
		g.state.Lock()
		defer g.state.Unlock()
		o.returned = time.Now()
	}()
	select {
	case do := <-order:
		return do(ctx, s)
	case <-ctx.Done():
		return m.wait(ctx, s)
	}
}

// one returns the member of a step.
func (g *randomGroup) one(s shardStep) *randomMember {
	g.state.Lock()
	defer g.state.Unlock()
	return g.state.members[s.member%uint64(len(g.state.members))]
}

// takeOne removes the member of a step from the list, and returns it. It returns nil if there is one alone.
func (g *randomGroup) takeOne(s shardStep) *randomMember {
	g.state.Lock()
	defer g.state.Unlock()
	return g.removeLocked(g.state.members[s.member%uint64(len(g.state.members))])
}

func (g *randomGroup) removeLocked(m *randomMember) *randomMember {
	i := slices.Index(g.state.members, m)
	if i < 0 || len(g.state.members) == 1 {
		return nil
	}
	g.state.members = slices.Delete(g.state.members, i, i+1)
	return m
}

// order gives an order to a function of the member of a step.
func (g *randomGroup) order(s shardStep, do func(m *randomMember, s shards.Shard, ctx context.Context) error) string {
	m := g.one(s)
	all := m.shards()
	if len(all) == 0 {
		return "nothing"
	}
	g.state.Lock()
	defer g.state.Unlock()
	select {
	case m.orders[all[s.shard%uint64(len(all))]] <- func(ctx context.Context, s shards.Shard) error { return do(m, s, ctx) }:
		return "done"
	default:
		return "nothing" // it has one
	}
}

// bar notes that the member gives a shard away for that time, unless it was asked for it.
func (g *randomGroup) bar(m *randomMember, s shards.Shard, lasts time.Duration) {
	if s.Err() != nil {
		return
	}
	g.state.Lock()
	defer g.state.Unlock()
	m.barred[s.Name()] = time.Now().Add(lasts)
}

// upset notes that something happened by which shards may be without an owner for longer.
func (g *randomGroup) upset() {
	g.state.Lock()
	defer g.state.Unlock()
	g.state.upsetAt = time.Now()
}

// fault begins a fault of the wire of a member, and ends it after lasts.
func (g *randomGroup) fault(m *randomMember, lasts time.Duration, begin func(w *wire)) string {
	g.state.Lock()
	if m.faults == 0 && time.Since(m.faultAt) > 3*time.Second {
		m.faulty = time.Now()
		if g.state.isFull > 0 || time.Since(g.state.upsetAt) < 3*time.Second { // what the server refused may be polls: renewals come each third of a lease
			m.faulty = m.faulty.Add(-shards.DefaultLease / 3)
		}
	}
	m.faults++
	era := m.era
	g.state.Unlock()
	g.upset()
	begin(m.wire)
	time.AfterFunc(lasts, func() {
		g.state.Lock()
		defer g.state.Unlock()
		if m.era != era {
			return
		}
		if m.faults--; m.faults == 0 {
			g.healLocked(m)
		}
	})
	return "done"
}

func (g *randomGroup) healLocked(m *randomMember) {
	m.faultAt, g.state.upsetAt = time.Now(), time.Now()
	wasYoung := m.faulty.Sub(m.born) < shards.DefaultLease
	if !m.born.IsZero() && (wasYoung || time.Since(m.faulty) >= 8*time.Second) {
		m.born = time.Now() // the lease may have been lost while no function ran that could say so
	}
	if !m.isStopped() {
		m.wire.losesMessages.Store(false)
		m.wire.latency.Store(int64(m.latency))
		m.wire.heal()
	}
}

// heal ends the faults of all wires.
func (g *randomGroup) heal() {
	g.state.Lock()
	defer g.state.Unlock()
	for _, m := range g.state.all {
		if m.faults > 0 {
			m.faults, m.era = 0, m.era+1
			g.healLocked(m)
		}
	}
}

// outage begins a fault of the wires of all.
func (g *randomGroup) outage(lasts time.Duration, begin func(w *wire)) string {
	g.state.Lock()
	all := slices.Collect(maps.Values(g.state.all))
	g.state.Unlock()
	for _, m := range all {
		if !m.isStopped() {
			g.fault(m, lasts, begin)
		}
	}
	return "done"
}

// serverFault begins a fault of the server, and ends it after lasts.
func (g *randomGroup) serverFault(lasts time.Duration, set func(bool)) string {
	if set == nil {
		return "nothing"
	}
	g.state.Lock()
	defer g.state.Unlock()
	if g.state.isFull > 0 {
		return "nothing"
	}
	g.state.isFull++
	g.state.refuses = [2]time.Time{time.Now(), time.Now().Add(lasts + 3*time.Second)}
	set(true)
	time.AfterFunc(lasts, func() {
		set(false)
		g.state.Lock()
		defer g.state.Unlock()
		g.state.isFull--
		g.state.upsetAt = time.Now()
	})
	return "done"
}

// lossy does what members have to know of within two seconds, by guarantee 1.
func (g *randomGroup) lossy(do func()) string {
	g.heal()
	time.Sleep(returnTime)
	note := func() {
		g.state.Lock()
		defer g.state.Unlock()
		g.state.lostAt, g.state.upsetAt = time.Now(), time.Now()
		clear(g.state.unowned) // the group is another one, and Health begins anew
		clear(g.state.unread)
	}
	note()
	do()
	time.Sleep(returnTime)
	note()
	return "done"
}

// loses is lossy for what loses data.
func (g *randomGroup) loses(do func()) string {
	return g.lossy(func() {
		isKnown := false
		g.state.Lock()
		for _, m := range g.state.members {
			isKnown = isKnown || m.load() > 0
		}
		isNew := g.state.isSetting || time.Since(g.state.setAt) < settleTime
		g.state.isUnsure, g.state.isLost, g.state.losses = g.state.isUnsure || isNew || !isKnown, true, g.state.losses+1
		g.state.Unlock()
		do()
		if g.plan.jumps { // tokens of members that are gone may have been greater, by guarantee 12
			g.mu.Lock()
			clear(g.mu.tokens)
			g.mu.Unlock()
		}
	})
}

// call makes a call, and counts how it ends.
func (g *randomGroup) call(verb string, do func(ctx context.Context) error) string {
	g.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		g.counts.add(verb + ": " + callOutcome(do(ctx)))
	})
	return ""
}

func callOutcome(err error) string {
	for word, is := range map[string]error{
		"not held": signalbox.ErrNotHeld, "not in time": context.DeadlineExceeded, "closed": signalbox.ErrClosed, "left": shards.ErrLeft, "refused": signalbox.ErrRefused,
	} {
		if errors.Is(err, is) {
			return word
		}
	}
	if err != nil {
		return "failed"
	}
	return "done"
}

// setting makes a call that sets the set, one at a time.
func (g *randomGroup) setting(verb string, do func(ctx context.Context) error, done func()) string {
	g.state.Lock()
	defer g.state.Unlock()
	if g.state.isSetting {
		return "nothing"
	}
	g.state.isSetting = true
	return g.call(verb, func(ctx context.Context) error {
		g.state.Lock()
		losses := g.state.losses
		g.state.Unlock()
		err := do(ctx)
		g.state.Lock()
		defer g.state.Unlock()
		g.state.isSetting, g.state.upsetAt, g.state.setAt = false, time.Now(), time.Now()
		if g.state.isUnsure = err != nil || g.state.losses > losses; err == nil {
			g.state.isLost = false
			done()
		}
		return err
	})
}

// set calls a method of a Member that sets something.
func (g *randomGroup) setMember(s shardStep, note func(m *randomMember), do func(m *shards.Member, ctx context.Context) error) string {
	m := g.one(s)
	g.state.Lock()
	defer g.state.Unlock()
	joined := m.joined.Load()
	if joined == nil {
		return "nothing"
	}
	note(m) // also if the call fails: the member keeps it
	return g.call(s.verb, func(ctx context.Context) error { return do(joined, ctx) })
}

// kill kills a member that was removed from the list.
func (g *randomGroup) kill(m *randomMember) string {
	if m == nil {
		return "nothing"
	}
	g.upset()
	g.state.Lock()
	m.diedAt = time.Now()
	g.state.Unlock()
	m.kill()
	return "done"
}

// randomVerb is something that happens, and how often it is drawn.
type randomVerb struct {
	often int
	do    func(g *randomGroup, s shardStep) (outcome string)
}

// randomVerbs returns the verbs, each as often as it is to be drawn.
func randomVerbs() (all []string) {
	of := shardVerbs()
	for _, verb := range slices.Sorted(maps.Keys(of)) {
		all = append(all, slices.Repeat([]string{verb}, of[verb].often)...)
	}
	return all
}

func upTo(s shardStep, d time.Duration) time.Duration {
	return time.Duration(s.draw().Int64N(int64(d)))
}

// shardVerbs returns all that happens.
func shardVerbs() map[string]randomVerb {
	all := memberVerbs()
	for _, more := range []map[string]randomVerb{setVerbs(), functionVerbs(), wireVerbs(), serverVerbs()} {
		maps.Copy(all, more)
	}
	return all
}

func memberVerbs() map[string]randomVerb {
	return map[string]randomVerb{
		"join": {10, func(g *randomGroup, s shardStep) string {
			g.state.Lock()
			isFull := len(g.state.members) >= mostRandomMembers
			g.state.Unlock()
			if isFull {
				return "nothing"
			}
			g.join(s.draw())
			return "done"
		}},
		"leave": {4, func(g *randomGroup, s shardStep) string {
			m := g.takeOne(s)
			if m == nil {
				return "nothing"
			}
			m.cancel()
			return "done"
		}},
		"close": {1, func(g *randomGroup, s shardStep) string {
			m := g.takeOne(s)
			if m == nil {
				return "nothing"
			}
			return g.call(s.verb, func(ctx context.Context) error {
				inTime := context.AfterFunc(ctx, func() { // Close ends the leases then
					g.state.Lock()
					defer g.state.Unlock()
					m.faultAt = time.Now()
				})
				defer inTime()
				return m.Close(ctx)
			})
		}},
		"kill": {4, func(g *randomGroup, s shardStep) string { return g.kill(g.takeOne(s)) }},
		"keep from reading": {2, func(g *randomGroup, s shardStep) string {
			m, lasts := g.one(s), upTo(s, 4*time.Minute)
			g.state.Lock()
			defer g.state.Unlock()
			if m.joined.Load() == nil {
				return "nothing"
			}
			if until := time.Now().Add(lasts); until.After(m.pause) { // a reader that is kept already does not look again
				m.pause = until
			}
			return "done"
		}},
		"weight": {3, func(g *randomGroup, s shardStep) string {
			w := s.draw().IntN(4)
			return g.setMember(s, func(m *randomMember) { m.weight = w }, func(m *shards.Member, ctx context.Context) error { return m.SetWeight(ctx, w) })
		}},
		"value": {1, func(g *randomGroup, s shardStep) string {
			v := fmt.Sprint("w", s.draw().IntN(100))
			return g.setMember(s, func(m *randomMember) { m.value = v }, func(m *shards.Member, ctx context.Context) error { return m.SetValue(ctx, v) })
		}},
	}
}

func setVerbs() map[string]randomVerb {
	return map[string]randomVerb{
		"resize": {2, func(g *randomGroup, s shardStep) string {
			if g.plan.named {
				return "nothing"
			}
			random := s.draw()
			n, by := 10+random.IntN(50), g.one(s)
			return g.setting(s.verb, func(ctx context.Context) error {
				if random.IntN(3) == 0 {
					g.resizesBefore(ctx, 10+random.IntN(50), upTo(s, 3*time.Second))
				}
				return by.group.Resize(ctx, n)
			}, func() { g.state.count = n })
		}},
		"sync": {4, func(g *randomGroup, s shardStep) string {
			if !g.plan.named {
				return "nothing"
			}
			by, listed := g.one(s), []string{}
			for _, n := range s.draw().Perm(60)[:20+s.draw().IntN(30)] {
				listed = append(listed, nameOf(n))
			}
			return g.setting(s.verb, func(ctx context.Context) error { return by.group.Sync(ctx, listed) }, func() { g.listed(listed) })
		}},
		"move": {3, func(g *randomGroup, s shardStep) string {
			to, by := g.one(s), g.one(shardStep{member: s.argument})
			g.state.Lock()
			known := slices.Sorted(maps.Keys(g.state.latest))
			g.state.Unlock()
			if len(known) == 0 {
				return "nothing"
			}
			name := known[s.shard%uint64(len(known))]
			return g.call(s.verb, func(ctx context.Context) error { return by.group.Move(ctx, name, to.ID()) })
		}},
	}
}

// resizesBefore begins a Resize that a later one is to undo. It reaches the server at once, unless that refuses it.
func (g *randomGroup) resizesBefore(ctx context.Context, n int, lead time.Duration) {
	g.state.Lock()
	isRefused := g.state.isFull > 0
	g.state.Unlock()
	if !isRefused {
		g.calls.Go(func() { g.counts.add("resize before another: " + callOutcome(g.views.Resize(ctx, n))) })
		time.Sleep(time.Millisecond + lead)
	}
}

// listed notes that the set has these names. One that may leave it still is not known to be there.
func (g *randomGroup) listed(all []string) {
	before := g.state.names
	g.state.names = make(map[string]bool, len(all))
	for _, name := range all {
		isCertain, was := before[name]
		g.state.names[name] = isCertain || !was
	}
}

func functionVerbs() map[string]randomVerb {
	return map[string]randomVerb{
		"nil": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(*randomMember, shards.Shard, context.Context) error { return nil })
		}},
		"error": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, sh shards.Shard, _ context.Context) error {
				if !m.byRun {
					g.bar(m, sh, shards.DefaultElsewhere)
				}
				return errShardWork
			})
		}},
		"elsewhere": {4, func(g *randomGroup, s shardStep) string {
			pause := []time.Duration{-1, 0, time.Millisecond, 2 * time.Second, 40 * time.Second, 100 * 365 * 24 * time.Hour}[s.draw().IntN(6)]
			return g.order(s, func(m *randomMember, sh shards.Shard, _ context.Context) error {
				lasts := min(pause, 365*24*time.Hour)
				if lasts <= 0 || !m.byRun {
					lasts = shards.DefaultElsewhere
				}
				g.bar(m, sh, lasts)
				return shards.Elsewhere(errShardWork, pause)
			})
		}},
		"panic": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, sh shards.Shard, _ context.Context) error {
				g.bar(m, sh, shards.DefaultElsewhere)
				if s.draw().IntN(2) == 0 { // then the process ends
					time.AfterFunc(time.Second, func() {
						g.state.Lock()
						dies := g.removeLocked(m)
						g.state.Unlock()
						g.kill(dies)
					})
				}
				runtime.Goexit()
				return nil
			})
		}},
		"finished": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, sh shards.Shard, _ context.Context) error {
				if !m.byRun || !g.plan.named {
					return nil
				}
				g.state.Lock()
				defer g.state.Unlock()
				if _, is := g.state.names[sh.Name()]; is {
					g.state.names[sh.Name()] = false
				}
				return shards.Finished
			})
		}},
		"hang": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, _ shards.Shard, _ context.Context) error {
				select {
				case <-g.calm:
				case <-m.over:
				}
				return nil
			})
		}},
		"ignore": {2, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, _ shards.Shard, ctx context.Context) error {
				<-ctx.Done()
				select {
				case <-time.After(upTo(s, 2*time.Minute)):
				case <-g.calm:
				case <-m.over:
				}
				return nil
			})
		}},
		"poison": {1, func(g *randomGroup, s shardStep) string {
			return g.order(s, func(m *randomMember, sh shards.Shard, _ context.Context) error {
				g.state.Lock()
				defer g.state.Unlock()
				g.state.poison[sh.Name()] = 4
				return nil // the next call is the first one that kills
			})
		}},
	}
}

func wireVerbs() map[string]randomVerb {
	on := func(often int, most time.Duration, begin func(w *wire)) randomVerb {
		return randomVerb{often, func(g *randomGroup, s shardStep) string { return g.fault(g.one(s), upTo(s, most), begin) }}
	}
	return map[string]randomVerb{
		"stop":            on(3, 40*time.Second, (*wire).goSilent),
		"cut":             on(1, time.Millisecond, (*wire).cut),
		"refuse":          on(1, 25*time.Second, (*wire).refuse),
		"forget":          on(1, 25*time.Second, (*wire).forgetConnections),
		"lose messages":   on(2, time.Minute, func(w *wire) { w.losesMessages.Store(true) }),
		"break listeners": on(1, time.Millisecond, (*wire).breakSubscriptions),
		"lose replies":    on(2, 25*time.Second, func(w *wire) { w.swallowsReplies.Store(true) }),
		"deliver nothing": on(3, 25*time.Second, func(w *wire) { w.swallowsReplies.Store(true); w.losesMessages.Store(true) }),
		"late":            on(2, 25*time.Second, func(w *wire) { w.latency.Store(int64(1500 * time.Millisecond)) }),
	}
}

func serverVerbs() map[string]randomVerb {
	return map[string]randomVerb{
		"away": {2, func(g *randomGroup, s shardStep) string { return g.outage(upTo(s, 30*time.Second), (*wire).goSilent) }},
		"restart": {1, func(g *randomGroup, s shardStep) string {
			g.server.do("SCRIPT", "FLUSH")
			return g.outage(upTo(s, 8*time.Second), (*wire).refuse)
		}},
		"restart empty": {1, func(g *randomGroup, s shardStep) string {
			return g.loses(func() {
				g.server.do("SCRIPT", "FLUSH")
				g.server.do("FLUSHALL")
				g.outage(upTo(s, time.Second), (*wire).refuse)
				time.Sleep(time.Second)
			})
		}},
		"flush": {1, func(g *randomGroup, s shardStep) string {
			return g.loses(func() {
				g.server.do("FLUSHALL")
				if s.draw().IntN(2) == 0 { // a caller gives the group another set while members give it the one that was lost
					time.Sleep(upTo(s, 3*time.Second))
					shardVerbs()["sync"].do(g, s)
				}
			})
		}},
		"failover": {2, func(g *randomGroup, _ shardStep) string {
			if g.server.backup == nil {
				return "nothing"
			}
			return g.loses(func() {
				g.state.Lock()
				g.state.olderAt, g.state.isUnsure = time.Now(), g.state.isUnsure || g.plan.named
				g.state.Unlock()
				g.kept[0]()
				g.outage(time.Millisecond, (*wire).cut) // the server is another one
			})
		}},
		"lost key": {2, func(g *randomGroup, s shardStep) string {
			random := s.draw()
			keys := groupKeys()
			random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			keys = keys[:1+random.IntN(2)*random.IntN(len(keys)-1)] // one in half of the cases, never all
			var old []string
			if g.server.backup != nil {
				old = keys[:random.IntN(len(keys)+1)]
			}
			return g.loses(func() { // another program
				for _, key := range keys[len(old):] {
					g.server.do("DEL", key)
				}
				if isOlder(old) {
					g.state.Lock()
					g.state.olderAt, g.state.isUnsure = time.Now(), g.state.isUnsure || g.plan.named
					g.state.Unlock()
				}
				if len(old) > 0 {
					g.kept[0](old...)
				}
			})
		}},
		"full": {1, func(g *randomGroup, s shardStep) string { return g.serverFault(upTo(s, 30*time.Second), g.server.full) }},
		"slot move": {1, func(g *randomGroup, s shardStep) string {
			return g.serverFault(upTo(s, 30*time.Second), g.server.moving)
		}},
		"clock": {4, func(g *randomGroup, s shardStep) string {
			if g.server.clock == nil {
				return "nothing"
			}
			steps := []time.Duration{4*time.Second + upTo(s, 20*time.Second), -upTo(s, 20*time.Second), -upTo(s, 20*time.Second), 2 * time.Hour, -2 * time.Hour}
			return g.lossy(func() { g.server.clock(steps[s.argument%uint64(len(steps))]) })
		}},
		"rest": {2, func(_ *randomGroup, s shardStep) string {
			time.Sleep(upTo(s, time.Minute))
			return "done"
		}},
	}
}

// groupKeys returns the keys of the group.
func groupKeys() []string { return locktest.Keys("a").ShardKeys() }

// isOlder reports whether a group of which these keys come from a copy is the group of that time: the others are made again of them.
func isOlder(restored []string) bool {
	all := groupKeys()
	for _, key := range []string{all[0], all[1], all[6], all[7]} { // the group, its members, its rows and their index
		if !slices.Contains(restored, key) {
			return false
		}
	}
	return true
}

// keeps makes a copy of the group's data. If it had another count then, the group may have that again, and the one of now once more
// before a function starts: its shards are others then, also if nobody has seen that.
func (g *randomGroup) keeps() (restore func(keys ...string)) {
	restoreData := g.server.backup()
	g.state.Lock()
	count, seen := g.state.count, g.seen
	g.state.Unlock()
	return func(keys ...string) {
		restoreData(keys...)
		g.state.Lock()
		if g.state.count != count || g.seen != seen {
			g.seen = 0
		}
		g.state.Unlock()
	}
}

// step does a step, and counts how it ended.
func (g *randomGroup) step(s shardStep) {
	if g.server.backup != nil {
		const back = 3
		g.kept = append(g.kept, g.keeps())
		g.kept = g.kept[max(0, len(g.kept)-back):]
	}
	time.Sleep(s.after)
	outcome := shardVerbs()[s.verb].do(g, s)
	if outcome != "" {
		g.counts.add(s.verb + ": " + outcome)
	}
	if g.plan.isGiven {
		g.w.Logf("%v %v: %s", time.Now().Format("15:04:05.000"), s, outcome)
	}
}
