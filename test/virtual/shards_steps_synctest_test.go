// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
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
	byOwn   bool // the program calls Own, and reads no Changes
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
	cutAt   time.Time                  // the end of the last fault that may have cost its lease
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

	session *signalbox.Session // that of views

	state struct {
		sync.Mutex
		version   int             // how many shards the members of the newest version of the program wish; 0: the first version
		brokenAt  time.Time       // the last time that all members were ended by force
		members   []*randomMember // the members that did not leave or die
		all       map[*shardMember]*randomMember
		latest    map[string]*ownership    // the last ownership of each shard
		count     int                      // the set
		names     map[string]bool          // the set, if it has names; false: the name may be there
		isUnsure  bool                     // a call that sets the set has failed, or the server lost it when no member knew it
		missing   map[string]bool          // names that the server lost when they had no owner, since they were set
		keepers   map[string]*randomMember // names that the server lost, and the member that had them and sets them again
		isSetting bool                     // such a call is under way
		setAt     time.Time                // when the last one ended
		losses    int                      // how often the server has lost data
		poison    map[string]int           // how many owners of a shard are still to die
		isFull    int                      // how many faults of the server are not over
		refuses   [2]time.Time             // when the last one began, and when members have polled after it
		upsetAt   time.Time                // the last time that something happened by which shards may be without an owner for longer
		lostAt    time.Time                // the last time that the server lost data, or its clock was set
		olderAt   time.Time                // the last time that it had older data again
		unowned   map[string]time.Time     // the time since which a shard has no owner
		unread    map[string]time.Time     // the time since which no reader has taken a shard up, or its owner may have lost it
		idle      map[string]time.Time     // the same as unowned, while nothing keeps members from taking it
		tokens    map[string]uint64        // the tokens of the owners that were seen last
		ends      map[string]time.Time     // when the last ownership of each shard ended, by the views
		shown     *shards.View             // what Watch has yielded last
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
	s.names, s.missing, s.keepers, s.count = make(map[string]bool), make(map[string]bool), make(map[string]*randomMember), p.size
	for _, name := range g.namesOf(0) {
		s.names[name] = true
	}
	g.session = w.user().Session
	g.views = shards.New(g.session, "a", g.set(0))
	g.excuses, g.onEnd = g.mayBegin, g.requireCause
	return g
}

func nameOf(n int) string { return fmt.Sprint("name-", n) }

// set returns the set that members of a version wish.
func (g *randomGroup) set(version int) shards.Set {
	if !g.plan.named {
		return shards.Count(cmp.Or(version, g.plan.size))
	}
	return shards.Names(g.namesOf(version)...)
}

// namesOf returns the names that members of a version wish.
func (g *randomGroup) namesOf(version int) []string {
	all := make([]string, cmp.Or(version, g.plan.size))
	for n := range all {
		all[n] = nameOf(n)
	}
	return all
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
	m.byOwn = !m.byRun && random.IntN(4) == 0
	m.orders, m.barred = make(map[string]chan shardOrder), make(map[string]time.Time)
	m.latency = upTo(20 * time.Millisecond)
	if random.IntN(3) == 0 {
		m.weight = []int{1, 2, 3, shards.MaxWeight}[random.IntN(4)]
	}
	if random.IntN(8) == 0 {
		m.limit = 3 + random.IntN(10)
	}
	for _, other := range like {
		m.weight, m.limit = other.weight, other.limit
	}
	g.state.Lock()
	version := g.state.version
	g.state.Unlock()
	options := append(g.plan.optionsOf(random), shards.Weight(m.weight), shards.Limit(m.limit), shards.Value(m.value))
	drain := upTo(mostDrain)
	if random.IntN(3) == 0 {
		drain = 0 // functions return in the instant in which their contexts end
	}
	m.shardMember = g.newMember(g.set(version), drain, options...)
	m.wire.latency.Store(int64(m.latency))
	g.state.Lock()
	g.state.members, g.state.all[m.shardMember] = append(g.state.members, m), m
	g.state.Unlock()
	work := m.recorded(func(ctx context.Context, s shards.Shard) error { return g.work(m, ctx, s) })
	switch {
	case m.byRun:
		m.start(func(ctx context.Context) error { return m.group.Run(ctx, work) })
	case m.byOwn:
		m.start(func(ctx context.Context) error { return g.runByHand(ctx, m, work, g.byOwn) })
	default:
		m.start(func(ctx context.Context) error { return g.runByHand(ctx, m, work, g.byChanges(m)) })
	}
	return m
}

// runByHand is Run by way of Join, and of find, which serves the shards that the member owns until it is over.
func (g *randomGroup) runByHand(
	ctx context.Context, m *randomMember, work func(context.Context, shards.Shard) error, find func(joined *shards.Member, serve func(shards.Shard)),
) error {
	joined, err := m.group.Join(ctx)
	if err != nil {
		return err
	}
	g.state.Lock()
	m.joined.Store(joined)
	g.state.Unlock()
	defer context.AfterFunc(ctx, func() { _ = joined.Leave(context.Background()) })()
	var functions sync.WaitGroup
	find(joined, func(s shards.Shard) {
		functions.Go(func() {
			defer s.Release()
			bound := s.Bind(context.Background())
			for bound.Err() == nil && !errors.Is(work(bound, s), errShardWork) {
				time.Sleep(100 * time.Millisecond)
			}
		})
	})
	functions.Wait()
	<-joined.Done()
	return errors.Join(joined.Err(), ctx.Err())
}

// byChanges finds the shards of a member by Changes.
func (g *randomGroup) byChanges(m *randomMember) func(*shards.Member, func(shards.Shard)) {
	return func(joined *shards.Member, serve func(shards.Shard)) {
		for c := range joined.Changes() {
			if c.Kind == shards.Granted {
				serve(c.Shard)
			}
			g.awaitReading(m)
		}
	}
}

// byOwn finds the shards of a member by Own. A shard that is served is owned until its function has released it: the next one is another.
func (g *randomGroup) byOwn(joined *shards.Member, serve func(shards.Shard)) {
	served := make(map[string]shards.Shard)
	for {
		for n := range 3 * g.plan.size / 2 {
			name := nameOf(n)
			if !g.plan.named {
				name = strconv.Itoa(n)
			}
			if s, is := joined.Own(name); is && served[name] != s {
				served[name] = s
				serve(s)
			}
		}
		select {
		case <-joined.Done():
			return
		case <-time.After(250 * time.Millisecond):
		}
	}
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
	if m.drain == 0 { // the contexts of a member take a while to end, and some functions return before others know
		for range 100 {
			parent, cancel := context.WithCancel(context.Background())
			defer cancel()
			s.Bind(parent)
		}
	}
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
	for name, keeper := range g.state.keepers {
		if keeper == m {
			delete(g.state.keepers, name)
			g.state.missing[name] = true // it may not have set it yet
		}
	}
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

// mayLoseLocked reports whether the fault of a member, which is not over, may cost its lease: it has lasted for 8 s, or the lease is young.
func (g *randomGroup) mayLoseLocked(m *randomMember) bool {
	return m.born.IsZero() || m.faulty.Sub(m.born) < g.slow(shards.DefaultLease) || time.Since(m.faulty) >= 8*time.Second
}

func (g *randomGroup) healLocked(m *randomMember) {
	m.faultAt, g.state.upsetAt = time.Now(), time.Now()
	if g.mayLoseLocked(m) {
		m.cutAt = time.Now()
		if !m.born.IsZero() {
			m.born = time.Now() // the lease may have been lost while no function ran that could say so
		}
	}
	if !m.isStopped() {
		m.wire.losesMessages.Store(false)
		m.wire.latency.Store(int64(m.latency))
		m.wire.heal()
	}
}

// heal ends the faults of all wires, also those that are to begin at a call.
func (g *randomGroup) heal() {
	g.state.Lock()
	defer g.state.Unlock()
	for _, m := range g.state.all {
		m.wire.onSend.Store(nil)
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

// groupScripts returns the scripts that a member calls, for faults that begin at one of their calls.
func groupScripts() []*scripts.Script {
	return []*scripts.Script{
		proto.ShardsJoinScript, proto.ShardsPollScript, proto.ShardsReleaseScript, proto.ShardsLeaveScript, proto.ShardsSetScript,
		proto.ShardsSyncScript, proto.ShardsResizeScript, proto.ShardsMoveScript, proto.HoldsRenewScript,
	}
}

// atCall calls do when a member sends a script, before the server gets that, or at the latest after that time. It calls it once, on
// another goroutine.
func (g *randomGroup) atCall(m *randomMember, script *scripts.Script, latest time.Duration, do func(isCall bool)) {
	var once sync.Once
	var noticed func([]byte)
	begins := func(isCall bool) {
		once.Do(func() {
			m.wire.onSend.CompareAndSwap(&noticed, nil)
			do(isCall)
		})
	}
	noticed = func(sent []byte) {
		if bytes.Contains(sent, []byte(script.SHA1)) {
			begins(true)
		}
	}
	m.wire.onSend.Store(&noticed)
	time.AfterFunc(latest, func() { begins(false) })
}

// faultAt begins a fault of the wire of a member at its next call of a script: the request is lost, or the reply, or the connection.
func (g *randomGroup) faultAt(m *randomMember, script *scripts.Script, random *rand.Rand) {
	lasts := time.Duration(random.Int64N(int64(25 * time.Second)))
	begin := (*wire).goSilent
	switch random.IntN(4) {
	case 0:
		begin = func(w *wire) { w.swallowsReplies.Store(true); w.losesMessages.Store(true) }
	case 1:
		begin, lasts = (*wire).cut, time.Millisecond
	}
	g.atCall(m, script, 30*time.Second, func(isCall bool) {
		if isCall {
			g.counts.add("fault at a call: began")
			g.fault(m, lasts, begin)
		}
	})
}

// lossy does what members have to know of within two seconds, by guarantee 1. In half of the cases it waits for a call.
func (g *randomGroup) lossy(s shardStep, do func()) string {
	g.heal()
	time.Sleep(returnTime)
	note := func() {
		g.state.Lock()
		defer g.state.Unlock()
		g.state.lostAt, g.state.upsetAt = time.Now(), time.Now()
		clear(g.state.unowned) // the group is another one, and Health begins anew
		clear(g.state.unread)
	}
	happens := func(bool) { note(); do() }
	if random := s.draw(); random.IntN(2) == 0 {
		happens(false)
	} else {
		happened := make(chan struct{})
		all := groupScripts()
		g.atCall(g.one(s), all[random.IntN(len(all))], 10*time.Second, func(isCall bool) { happens(isCall); close(happened) })
		<-happened
	}
	time.Sleep(returnTime)
	note()
	return "done"
}

// loses is lossy for what loses data. After that wires may fail of members that know of it, before they have said again what is lost.
func (g *randomGroup) loses(s shardStep, do func()) string {
	return g.lossy(s, func() {
		g.losesNames()
		do()
		if g.plan.jumps { // tokens of members that are gone may have been greater, by guarantee 12
			g.mu.Lock()
			clear(g.mu.tokens)
			g.mu.Unlock()
		}
		random := rand.New(rand.NewPCG(s.argument, 5))
		at := []*scripts.Script{proto.ShardsJoinScript, proto.ShardsReleaseScript}
		if g.plan.named {
			at = append(at, proto.ShardsSyncScript, proto.ShardsSyncScript)
		}
		g.state.Lock()
		all := slices.Clone(g.state.members)
		g.state.Unlock()
		knows := slices.IndexFunc(all, func(m *randomMember) bool { return m.load() > 0 }) // it says again what members request together
		for i, m := range all {
			if i != knows && random.IntN(2) == 0 {
				g.faultAt(m, at[random.IntN(len(at))], random)
			}
		}
	})
}

// losesNames notes what members know of the set that the server is about to lose: they set the names again that they have.
func (g *randomGroup) losesNames() {
	v, err := g.views.View(context.Background())
	g.state.Lock()
	defer g.state.Unlock()
	isKnown, owners := false, make(map[string]*randomMember)
	for _, m := range g.state.members {
		isKnown = isKnown || m.load() > 0
	}
	for name, last := range g.state.latest {
		i := slices.IndexFunc(g.state.members, func(m *randomMember) bool { return m == last.member })
		if err != nil || i < 0 {
			continue
		}
		// It has heard that it owns the shard, and not that this is over.
		if o, is := v.Owner(name); is && o.Session == last.member.ID() && o.Token == last.shard.Token() && (o.State == shards.Owned || o.State == shards.Draining) {
			owners[name] = last.member
		}
	}
	refused := g.state.refuses // then no member has polled since
	isNew := g.state.isSetting || time.Since(g.state.setAt) < settleTime || refused[0].Before(g.state.setAt.Add(settleTime)) && time.Now().Before(refused[1])
	g.state.isUnsure, g.state.losses = g.state.isUnsure || isNew || !isKnown, g.state.losses+1
	for name := range g.state.names {
		switch owner := owners[name]; {
		case owner != nil:
			g.state.keepers[name] = owner
		case g.state.keepers[name] == nil:
			g.state.missing[name] = true
		}
	}
}

// keptLocked requires that the server has the names again that a member has to set again, by a view that began then. A member that has
// set them forgets them when its next lease is whole.
func (g *randomGroup) keptLocked(v *shards.View, began time.Time) {
	isThere := make(map[string]bool)
	for _, name := range v.Names() {
		isThere[name] = true
	}
	for name, m := range g.state.keepers {
		isCertain := g.state.names[name] && !g.state.isUnsure && !g.state.isSetting && began.Sub(g.state.refuses[1]) > 2*returnTime
		switch well := min(began.Sub(m.faultAt), began.Sub(g.state.lostAt)); {
		case m.faults > 0 || well < returnTime:
		case isThere[name]:
			delete(g.state.keepers, name)
		case isCertain && well > 4*returnTime:
			go g.violated("shard %q did not come back %v after its owner could", name, well)
			delete(g.state.keepers, name)
		}
	}
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
		"join together": {1, func(g *randomGroup, s shardStep) string {
			random := s.draw()
			g.state.Lock()
			room := mostRandomMembers - len(g.state.members)
			g.state.Unlock()
			for range room {
				g.join(random)
			}
			return "done"
		}},
		"break": {1, func(g *randomGroup, s shardStep) string {
			g.upset()
			g.state.Lock()
			g.state.brokenAt = time.Now()
			g.state.Unlock()
			return g.call(s.verb, func(ctx context.Context) error {
				err := inspect.Break(ctx, g.session, "a")
				g.state.Lock()
				defer g.state.Unlock()
				g.state.brokenAt, g.state.upsetAt = time.Now(), time.Now()
				return err
			})
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
					m.faultAt, m.cutAt = time.Now(), time.Now()
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
			if m.joined.Load() == nil || m.byOwn {
				return "nothing"
			}
			if until := time.Now().Add(lasts); until.After(m.pause) { // a reader that is kept already does not look again
				m.pause = until
			}
			return "done"
		}},
		"weight": {3, func(g *randomGroup, s shardStep) string {
			w := []int{0, 0, 1, 2, 3, shards.MaxWeight}[s.draw().IntN(6)]
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
			n, by := g.otherSize(random), g.one(s)
			return g.setting(s.verb, func(ctx context.Context) error {
				if random.IntN(3) == 0 {
					g.resizesBefore(ctx, g.otherSize(random), upTo(s, 3*time.Second))
				}
				return by.group.Resize(ctx, n)
			}, func() { g.state.count = n })
		}},
		"next version": {1, func(g *randomGroup, s shardStep) string { return g.nextVersion(s) }},
		"sync": {4, func(g *randomGroup, s shardStep) string {
			if !g.plan.named {
				return "nothing"
			}
			by, listed := g.one(s).group, []string{}
			if s.argument%2 == 0 {
				by = g.views // no fault keeps it from the server
			}
			for _, n := range s.draw().Perm(3 * g.plan.size / 2)[:g.otherSize(s.draw())] {
				listed = append(listed, nameOf(n))
			}
			return g.setting(s.verb, func(ctx context.Context) error { return by.Sync(ctx, listed) }, func() { g.listed(listed) })
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

// nextVersion replaces all members by those of a program that wishes another set. The group has that when no other member is left.
func (g *randomGroup) nextVersion(s shardStep) string {
	g.state.Lock()
	defer g.state.Unlock()
	if g.state.isSetting {
		return "nothing"
	}
	random := s.draw()
	version := g.otherSize(random)
	if version == cmp.Or(g.state.version, g.plan.size) {
		return "nothing"
	}
	g.state.isSetting, g.state.version = true, version
	old, losses := slices.Clone(g.state.members), g.state.losses
	g.calls.Go(func() {
		for _, m := range old {
			g.join(random)
			time.Sleep(time.Duration(random.Int64N(int64(3 * time.Second))))
			g.state.Lock()
			isLeaving := g.removeLocked(m) != nil
			g.state.Unlock()
			if isLeaving {
				m.cancel()
			}
		}
		isUnsure := true
		for range 60 { // until those that died are over, and faults
			if time.Sleep(5 * time.Second); g.areGone(old) {
				isUnsure = false
				break
			}
		}
		g.state.Lock()
		defer g.state.Unlock()
		g.state.isSetting, g.state.upsetAt, g.state.setAt = false, time.Now(), time.Now()
		g.state.isUnsure = g.state.isUnsure || isUnsure || g.state.losses > losses
		g.state.count = version
		if g.plan.named {
			g.listed(g.namesOf(version))
		}
	})
	return "done"
}

// areGone reports whether none of these members takes part in the group any more.
func (g *randomGroup) areGone(all []*randomMember) bool {
	v, err := g.views.View(context.Background())
	return err == nil && !slices.ContainsFunc(v.Members, func(info shards.MemberInfo) bool {
		return !info.Leaving && slices.ContainsFunc(all, func(m *randomMember) bool { return m.ID() == info.Session })
	})
}

// otherSize draws how many shards a later set has.
func (g *randomGroup) otherSize(random *rand.Rand) int {
	return g.plan.size/4 + random.IntN(5*g.plan.size/4)
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
	clear(g.state.missing)
	clear(g.state.keepers)
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
		"stop":          on(3, 40*time.Second, (*wire).goSilent),
		"cut":           on(1, time.Millisecond, (*wire).cut),
		"refuse":        on(1, 25*time.Second, (*wire).refuse),
		"forget":        on(1, 25*time.Second, (*wire).forgetConnections),
		"lose messages": on(2, time.Minute, func(w *wire) { w.losesMessages.Store(true) }),
		"fault at a call": {4, func(g *randomGroup, s shardStep) string {
			random, all := s.draw(), groupScripts()
			g.faultAt(g.one(s), all[random.IntN(len(all))], random)
			return "done"
		}},
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
			return g.loses(s, func() {
				g.server.do("SCRIPT", "FLUSH")
				g.server.do("FLUSHALL")
				g.outage(upTo(s, time.Second), (*wire).refuse)
				time.Sleep(time.Second)
			})
		}},
		"flush": {2, func(g *randomGroup, s shardStep) string {
			return g.loses(s, func() {
				g.server.do("FLUSHALL")
				if s.draw().IntN(2) == 0 { // a caller gives the group another set while members give it the one that was lost
					time.Sleep(upTo(s, 3*time.Second))
					shardVerbs()["sync"].do(g, s)
				}
			})
		}},
		"failover": {2, func(g *randomGroup, s shardStep) string {
			if g.server.backup == nil {
				return "nothing"
			}
			return g.loses(s, func() {
				g.state.Lock()
				g.state.olderAt = time.Now()
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
			return g.loses(s, func() { // another program
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
			return g.lossy(s, func() { g.server.clock(steps[s.argument%uint64(len(steps))]) })
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
	count, seen, setAt, isSetting := g.state.count, g.seen, g.state.setAt, g.state.isSetting
	g.state.Unlock()
	return func(keys ...string) {
		restoreData(keys...)
		g.state.Lock()
		if g.state.count != count || g.seen != seen {
			g.seen = 0
		}
		if g.plan.named && (isSetting || g.state.isSetting || g.state.setAt != setAt) { // a name that left the set since is there again
			g.state.isUnsure = true
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
