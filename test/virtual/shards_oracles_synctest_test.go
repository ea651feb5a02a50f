// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	// mostSilent is for how long a shard may have no owner before Health says so: its last owner's lease, and what Health adds.
	mostSilent = shards.DefaultLease + 18*time.Second
	// mostUnowned is for how long a shard may have no owner if nothing but a death happens.
	mostUnowned = shards.DefaultLease + 4*time.Second
	// mostUnread is for how long a reader may leave a shard unread, while the server refuses releases for 30 s.
	mostUnread = 100 * time.Second
	// mostFault is for how long a fault lasts that may keep a release from the server.
	mostFault = 40 * time.Second
	// mostUneven is for how long loads may be uneven after the last event.
	mostUneven = 3 * time.Minute
	// mostViolations is how many are reported.
	mostViolations = 5
)

// violated notes what no guarantee allows.
func (g *randomGroup) violated(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.mu.violations) < mostViolations {
		g.violatedLocked("%v: %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
	}
}

// mayBegin reports whether a function may begin beside one that drains: after DrainLimit, or after the lease was lost. A member learns
// of that, but a context that has ended before keeps its cause. Beside one that works it may until members have polled twice at a
// server that lost the newest writes.
func (g *randomGroup) mayBegin(drains *shardRun) bool {
	g.state.Lock()
	defer g.state.Unlock()
	m := g.state.all[drains.member]
	if drains.ctx.Err() == nil {
		return time.Since(g.state.olderAt) < returnTime
	}
	drained := time.Since(drains.ended)
	isCut := m.faults > 0 && g.mayLoseLocked(m) || m.cutAt.After(drains.ended.Add(-shards.DefaultLease)) || g.state.brokenAt.After(drains.began)
	return g.plan.limit > 0 && drained >= g.plan.limit || isCut || g.state.lostAt.After(drains.began)
}

// requireCause requires that a context ends for a reason that guarantee 3 names, and by a lost lease only if the member was cut off from the
// server for 8 s, or its lease was not whole. A lease grows with the member's age in the group's time, which runs at half speed after the
// clock was set back: so it may take twice as long until it is whole.
func (g *randomGroup) requireCause(r *shardRun) {
	cause := context.Cause(r.ctx)
	if !slices.Contains(g.mu.running[r.shard.Name()], r) {
		return // it has returned
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(endsOfShards())), func(is error) bool { return errors.Is(cause, is) }) {
		g.violatedLocked("the context of shard %s ended by %v", r.shard.Name(), cause)
	}
	if !errors.Is(cause, signalbox.ErrLost) || r.member.isStopped() {
		return
	}
	g.state.Lock()
	defer g.state.Unlock()
	m := g.state.all[r.member]
	whole := g.grewUntilLocked(m.faulty)
	if time.Since(g.state.brokenAt) < shards.DefaultLease {
		m.born = time.Time{}
		return
	}
	isYoung := m.born.IsZero() || whole.Sub(m.born) < g.slow(shards.DefaultLease)
	wasCut := m.faults > 0 || time.Since(m.faultAt) < shards.DefaultLease
	if g.state.lostAt.Before(time.Now().Add(-shards.DefaultLease)) && !(wasCut && (isYoung || time.Since(m.faulty) >= 8*time.Second)) {
		g.violatedLocked("the lease of shard %s was lost, and the member had faults since %v, %v ago", r.shard.Name(), m.faulty.Format("15:04:05.000"), time.Since(m.faulty))
	}
	m.born = time.Time{}
}

// grewUntilLocked returns until when a lease grew that could grow until at: while the server refuses polls it does not.
func (g *randomGroup) grewUntilLocked(at time.Time) time.Time {
	if refused := g.state.refuses; refused[0].Before(at) && at.Before(refused[1]) {
		return refused[0]
	}
	return at
}

// poisonPause is how long a shard waits whose owners died so many times in a row.
func poisonPause(losses int) time.Duration {
	if losses < 3 {
		return 0
	}
	return min(time.Second<<(losses-3), 5*time.Minute)
}

// requirePauseLocked requires that a shard whose owners died three times in a row has waited since the lease of the last one ended.
func (g *randomGroup) requirePauseLocked(dead *randomMember, s shards.Shard) {
	died, ago := dead.diedAt, time.Since(dead.diedAt)
	least := poisonPause(s.Losses())
	if g.grewUntilLocked(died).Sub(dead.born) > g.slow(shards.DefaultLease) && dead.faults == 0 && died.Sub(dead.faultAt) > shards.DefaultLease { // it was whole
		least += shards.DefaultLease - 1100*time.Millisecond - dead.latency
	}
	if ago < least && g.state.lostAt.Before(died) {
		go g.violated("shard %s, whose owners died %d times, was granted %v after the last death", s.Name(), s.Losses(), ago)
	}
}

// starts notes that a function starts.
func (g *randomGroup) starts(m *randomMember, s shards.Shard, order chan shardOrder) *ownership {
	g.leftTime(m, s)
	g.requireLimit(m)
	g.state.Lock()
	defer g.state.Unlock()
	name := s.Name()
	g.seesLocked(s.Count())
	delete(g.state.unowned, name) // it may be over before the next look of watch
	delete(g.state.idle, name)
	m.orders[name] = order
	if until := m.barred[name]; time.Until(until) > time.Second { // the server counts from a later moment
		go g.violated("shard %s came back %v too early", name, time.Until(until))
	}
	if g.state.poison[name] > 0 && g.removeLocked(m) != nil {
		g.state.poison[name]--
		time.AfterFunc(100*time.Millisecond, func() { g.kill(m) })
	}
	if s.Losses() > 2 {
		g.counts.add("shard: its owners died three times")
	}
	if m.born.IsZero() {
		m.born = time.Now()
	}
	o := g.state.latest[name]
	// One that returned before its member died was released, or lost before: other deaths were counted since.
	if s.Losses() > 2 && o != nil && o.member.isStopped() && (o.returned.IsZero() || o.returned.After(o.member.diedAt)) {
		g.requirePauseLocked(o.member, s)
	}
	if o == nil || o.shard != s {
		o = &ownership{member: m, shard: s}
		g.state.latest[name] = o
	}
	o.returned = time.Time{}
	return o
}

// seesLocked notes how many shards there are. Those of a new set are others, of the same names.
func (g *randomGroup) seesLocked(count int) {
	if count != g.seen && !g.plan.named {
		clear(g.state.unowned)
		for _, m := range g.state.all {
			clear(m.barred)
		}
	}
	g.seen = count
}

// requireLimit requires that no more functions than its limit run in a member, those included that were asked to return.
func (g *randomGroup) requireLimit(m *randomMember) {
	g.mu.Lock()
	defer g.mu.Unlock()
	run := 0
	for _, runs := range g.mu.running {
		for _, r := range runs {
			// A server that lost the newest writes does not count what it has forgotten, for as long as the member owns that.
			isLost := r.ctx.Err() != nil && errors.Is(r.shard.Err(), signalbox.ErrLost) || g.mayBegin(r)
			if r.member == m.shardMember && !isLost {
				run++
			}
		}
	}
	if run == m.limit {
		g.counts.add("member: runs as many as its limit")
	}
	if run > m.limit {
		g.violatedLocked("%d functions run in a member with a limit of %d", run, m.limit)
	}
}

// leftTime requires that a context whose lease was lost ended a third of the lease ago: that of a member is 3 s and its age.
func (g *randomGroup) leftTime(m *randomMember, s shards.Shard) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range g.mu.running[s.Name()] {
		if other.member == m.shardMember || other.member.isStopped() || !errors.Is(other.shard.Err(), signalbox.ErrLost) {
			continue
		}
		g.counts.add("shard: begins beside a lost one")
		ago := time.Since(other.ended)
		g.state.Lock()
		hasLost := g.state.lostAt.After(other.began)
		g.state.Unlock()
		if ago < time.Second && !hasLost {
			g.violatedLocked("shard %s: its last context ended %v before", s.Name(), ago)
		}
	}
}

// hasOwner reports whether a shard has an owner, or a function that has not returned.
func (g *randomGroup) hasOwner(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if slices.ContainsFunc(g.mu.running[name], func(r *shardRun) bool { return !r.member.isStopped() }) {
		return true
	}
	g.state.Lock()
	defer g.state.Unlock()
	o := g.state.latest[name]
	return o != nil && !o.member.isStopped() && o.shard.Err() == nil
}

// mayTakeLocked reports whether a member may take that shard. The server bans it from when it was released, and a fault may keep it from that.
func (g *randomGroup) mayTakeLocked(m *randomMember, name string) bool {
	return m.weight > 0 && m.load() < m.limit && time.Since(m.barred[name]) > mostFault && time.Since(m.began) > returnTime && m.faults == 0 && time.Since(m.pause) > returnTime
}

// isUnreadLocked reports whether a shard that has no function may wait for the reader of its owner.
func (g *randomGroup) isUnreadLocked(name string, o shards.ShardInfo) bool {
	i := slices.IndexFunc(g.state.members, func(m *randomMember) bool { return m.ID() == o.Session && time.Since(m.pause) < returnTime })
	if i < 0 {
		return false
	}
	since, is := g.state.unread[name]
	if m := g.state.members[i]; !is || m.faults > 0 || m.faultAt.After(since) { // it may have lost its lease, and got the shard anew
		since = time.Now()
		g.state.unread[name] = since
	}
	unread := time.Since(since) < mostUnread
	if unread && time.Since(since) > 20*time.Second {
		g.counts.add("shard: unread for 20 s")
	}
	return unread
}

// watches requires, each second until calm, what is true at all times.
func (g *randomGroup) watches(ctx context.Context) {
	for second := 0; ctx.Err() == nil; second++ {
		began := time.Now()
		if v, err := g.views.View(ctx); err == nil {
			g.state.Lock()
			g.keptLocked(v, began)
			g.state.Unlock()
			g.watch(ctx, v)
		}
		g.requireRetries()
		g.requireFewRequests(second)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// slow returns how long what takes d may take: twice as long after the clock was set back.
func (g *randomGroup) slow(d time.Duration) time.Duration {
	if g.plan.jumps && g.server.clock != nil {
		d *= 2
	}
	return d + g.server.slack
}

// watch requires that no shard of the set is without an owner for longer than promised, and in silence never.
func (g *randomGroup) watch(ctx context.Context, v *shards.View) {
	all := v.Names()
	var silent, idle []string
	mostSilent, mostUnowned := g.slow(mostSilent), g.slow(mostUnowned)
	isReplaced := g.isReplaced(v.Count)
	owned := make(map[string]bool, len(all))
	for _, name := range all {
		owned[name] = g.hasOwner(name)
	}
	g.state.Lock()
	g.seesLocked(v.Count)
	maps.DeleteFunc(g.state.unread, func(name string, _ time.Time) bool { return owned[name] })
	for _, name := range all {
		o, _ := v.Owner(name)
		owned[name] = owned[name] || g.isUnreadLocked(name, o)
	}
	for _, times := range []map[string]time.Time{g.state.unowned, g.state.idle} {
		maps.DeleteFunc(times, func(name string, _ time.Time) bool { is, known := owned[name]; return is || !known })
	}
	for _, m := range g.state.all {
		if m.faults > 0 {
			g.state.upsetAt = time.Now()
		}
	}
	for _, name := range all {
		if owned[name] {
			continue
		}
		o, _ := v.Owner(name)
		since, is := g.state.unowned[name]
		last := g.state.latest[name]
		isHeldUp := g.state.isFull > 0 && last != nil && !last.member.isStopped() // its release
		if !is || isHeldUp || g.diesLocked(name, o) {
			since = time.Now()
			g.state.unowned[name] = since
		}
		if time.Since(since) > mostSilent {
			silent = append(silent, name)
		}
		most := mostUnowned + g.slow(poisonPause(o.Losses)) // also of one that was granted in this instant
		may := slices.ContainsFunc(g.state.members, func(m *randomMember) bool { return g.mayTakeLocked(m, name) })
		if !may || isReplaced || g.state.isFull > 0 || g.state.isSetting {
			delete(g.state.idle, name)
			continue
		}
		since, is = g.state.idle[name]
		if !is || since.Before(g.state.upsetAt) {
			since = time.Now()
		}
		if g.state.idle[name] = since; time.Since(since) > most {
			idle = append(idle, fmt.Sprintf("%s %+v since %v", name, o, since.Format("15:04:05.000")))
			delete(g.state.idle, name)
		}
	}
	g.state.Unlock()
	if len(idle) > 0 {
		g.violated("no owner, though a member may have them: %q", idle)
	}
	if len(silent) == 0 {
		g.nils = 0
		return
	}
	g.counts.add("health: must not be nil")
	if g.views.Health(ctx) != nil {
		g.nils = 0
		return
	}
	// A server that was away reaps no member for two seconds, and then 16 shards a call.
	if g.nils++; g.nils > 5 {
		g.violated("Health returns nil, and these have no owner for more than %v: %q; %d members, %d unowned, %d drain", mostSilent, silent, len(v.Members), v.Unowned, v.Draining)
	}
}

// diesLocked reports whether the server has granted a shard once more to a member that does not hear of it, or whether a late call of a
// member made its lease live again that no other member had seen the end of, and released the shard. It pays again.
func (g *randomGroup) diesLocked(name string, o shards.ShardInfo) bool {
	if o.Session == "" {
		isLate := !o.Since.Equal(g.state.ends[name]) && slices.ContainsFunc(g.state.members, func(m *randomMember) bool {
			return m.faults > 0 || time.Since(m.faultAt) < returnTime
		})
		g.state.ends[name] = o.Since
		return isLate
	}
	if o.Token == g.state.tokens[name] {
		return false
	}
	g.state.tokens[name] = o.Token
	for _, m := range g.state.all {
		if m.ID() == o.Session {
			return m.isStopped() || m.faults > 0 || time.Since(m.faultAt) < returnTime
		}
	}
	return false
}

// isReplaced reports whether a function runs for which a new set waits. One that was asked for its shard before the Resize keeps the
// cause of that, ErrMoved say, and no view says that a new set waits for it. So after a Resize that was not in time, which continues,
// it may be any that drains: by guarantee 11 nothing is granted before that has returned, however long it hangs.
func (g *randomGroup) isReplaced(count int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Lock()
	mayWait := g.state.isUnsure
	g.state.Unlock()
	for _, runs := range g.mu.running {
		if slices.ContainsFunc(runs, func(r *shardRun) bool {
			end := r.shard.Err()
			return !g.plan.named && !r.member.isStopped() && (r.shard.Count() != count || errors.Is(end, shards.ErrResized) || mayWait && end != nil)
		}) {
			return true
		}
	}
	return false
}

// requireFewRequests requires that no member has called more scripts in ten seconds than ten polls a second, while no messages arrive, and
// two for each shard.
func (g *randomGroup) requireFewRequests(second int) {
	most := int64(100 + 2*g.plan.size)
	g.state.Lock()
	defer g.state.Unlock()
	for _, m := range g.state.all {
		now, at := m.wire.scripts.Load(), &m.sent[second%len(m.sent)]
		if sent := now - *at; sent > most {
			go g.violated("a member sent %d requests in ten seconds", sent)
		}
		*at = now
	}
}

// requireRetries requires that functions that returned are called again.
func (g *randomGroup) requireRetries() {
	g.state.Lock()
	defer g.state.Unlock()
	for name, o := range g.state.latest {
		if !o.returned.IsZero() && time.Since(o.returned) > mostRetry+time.Second+g.server.slack && o.shard.Err() == nil && !o.member.isStopped() {
			go g.violated("the function of shard %s was not called again for %v", name, time.Since(o.returned))
			o.returned = time.Now()
		}
	}
}

// uneven returns why the loads are not even, or "". They are if each shard has an owner that some member may be, and if no move that
// members allow would make the loads by weight more even.
func (g *randomGroup) uneven() string {
	v, err := g.views.View(context.Background())
	if err != nil {
		return err.Error()
	}
	all := v.Names()
	g.state.Lock()
	defer g.state.Unlock()
	owner := make(map[string]*randomMember)
	for _, m := range g.state.members {
		for _, name := range m.shards() {
			owner[name] = m
		}
	}
	for _, name := range all {
		from := owner[name]
		for _, to := range g.state.members {
			if from == to || to.weight == 0 || to.load() >= to.limit || time.Now().Before(to.barred[name]) {
				continue
			}
			if from == nil {
				return fmt.Sprintf("shard %s has no owner, and %d of weight %d has room", name, slices.Index(g.state.members, to), to.weight)
			}
			if from.weight == 0 || from.load() > from.limit || (2*from.load()-1)*to.weight > (2*to.load()+1)*from.weight {
				return fmt.Sprintf("shard %s may move from a load of %d for %d to one of %d for %d", name, from.load(), from.weight, to.load(), to.weight)
			}
		}
	}
	return ""
}

// untilEven waits until the loads are even, at most for that time.
func (g *randomGroup) untilEven(most time.Duration) (took time.Duration) {
	began := time.Now()
	for {
		why := g.uneven()
		took = time.Since(began)
		if why == "" {
			return took
		}
		if took > most {
			g.violated("not even after %v: %s; health: %v", took, why, g.views.Health(context.Background()))
			return took
		}
		time.Sleep(time.Second)
	}
}

// bars returns whether some shard may not go to some living member, and when the last of those ends that end soon.
func (g *randomGroup) bars() (are bool, till time.Time) {
	g.state.Lock()
	defer g.state.Unlock()
	till = time.Now()
	for _, m := range g.state.members {
		for _, until := range m.barred {
			are = are || time.Now().Before(until)
			if time.Until(until) < time.Hour && until.After(till) {
				till = until
			}
		}
	}
	return are, till
}

// play plays the plan, and returns what happened that no guarantee allows.
func (g *randomGroup) play() []string {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g.calls.Go(func() { g.watches(ctx) })
	g.calls.Go(func() {
		for v, err := range g.views.Watch(ctx) {
			if err == nil {
				g.state.Lock()
				g.state.shown = v
				g.state.Unlock()
			}
		}
	})
	first := rand.New(rand.NewPCG(g.plan.seed, 3))
	for range 3 {
		g.join(first)
	}
	for _, s := range g.plan.steps {
		g.step(s)
	}
	g.comesToRest()
	if g.isSound() {
		g.changesOnce(first)
	}
	cancel()
	g.calls.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.violations
}

func (g *randomGroup) isSound() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.violations) == 0
}

// comesToRest ends all faults. Then loads become even, nothing moves any more, and all see the same.
func (g *randomGroup) comesToRest() {
	close(g.calm)
	for isSetting := true; isSetting; time.Sleep(time.Second) {
		g.state.Lock()
		isSetting = g.state.isSetting
		g.state.Unlock()
	}
	g.state.Lock()
	for _, m := range g.state.all {
		m.pause = time.Now()
	}
	g.state.Unlock()
	g.heal()
	time.Sleep(30 * time.Second) // calls and faults of the server end, and functions have had their orders
	g.state.Lock()
	clear(g.state.poison)
	g.state.Unlock()
	g.heal()
	most := g.slow(mostUneven)
	if g.hasPoison() {
		most += 6 * time.Minute
	}
	took := g.untilEven(most)
	g.requireSet()
	if are, till := g.bars(); are {
		time.Sleep(time.Until(till) + 15*time.Second)
	}
	g.untilEven(most)
	time.Sleep(30 * time.Second)
	late := g.late()
	g.countCauses()
	g.reset()
	time.Sleep(time.Minute)
	if moves, _ := g.reset(); moves > 0 {
		g.violated("%d shards moved in a minute of rest", moves)
	}
	g.requireSeen()
	g.w.Logf("seed %d: %d members, even after %v, %d beside one of a lost lease", g.plan.seed, len(g.state.members), took, late)
}

// hasPoison reports whether a shard waits since its owners died.
func (g *randomGroup) hasPoison() bool {
	v, err := g.views.View(context.Background())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(v.Names(), func(name string) bool { o, _ := v.Owner(name); return o.Losses > 2 })
}

// countCauses counts why contexts ended.
func (g *randomGroup) countCauses() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, cause := range g.mu.causes {
		for word, is := range endsOfShards() {
			if errors.Is(cause, is) {
				g.counts.add("context: " + word)
			}
		}
	}
	if g.mu.late > 0 {
		g.counts.add("shard: begins beside a late function")
	}
}

func endsOfShards() map[string]error {
	return map[string]error{
		"moved": shards.ErrMoved, "removed": shards.ErrRemoved, "resized": shards.ErrResized, "left": shards.ErrLeft, "lost": signalbox.ErrLost, "cancelled": context.Canceled,
	}
}

// requireSet requires that the set is that of the last call that succeeded, or that Health says what is missing. Then it is set again.
func (g *randomGroup) requireSet() {
	ctx := context.Background()
	v, err := g.views.View(ctx)
	if err != nil {
		g.violated("no view: %v", err)
		return
	}
	healthy := g.views.Health(ctx) == nil
	g.state.Lock()
	count, all, isUnsure, missing := g.state.count, maps.Clone(g.state.names), g.state.isUnsure, maps.Clone(g.state.missing)
	g.state.Unlock()
	if !g.plan.named {
		if !isUnsure && v.Count != count {
			g.violated("the set has %d shards, and not %d", v.Count, count)
		}
		return
	}
	isThere := make(map[string]bool)
	for _, name := range v.Names() {
		isThere[name] = true
		if _, is := all[name]; !is && !isUnsure {
			g.violated("there is a shard %q", name)
		}
	}
	for name, isCertain := range all {
		switch {
		case !isCertain || isThere[name] || isUnsure:
		case !missing[name]:
			g.violated("there is no shard %q, which had an owner when the server lost it", name)
		case healthy:
			g.violated("there is no shard %q, and Health says nothing", name)
		}
	}
	if err := g.views.Sync(ctx, slices.Sorted(maps.Keys(all))); err != nil {
		g.violated("sync: %v", err)
	}
	g.untilEven(mostUneven)
}

// requireSeen requires that a view, the last one of Watch, and Health say what is true.
func (g *randomGroup) requireSeen() {
	v, err := g.views.View(context.Background())
	if err != nil {
		g.violated("no view: %v", err)
		return
	}
	unowned := 0
	g.state.Lock()
	shown := g.state.shown
	owner := make(map[string]*randomMember)
	for _, m := range g.state.members {
		for _, name := range m.shards() {
			owner[name] = m
		}
	}
	g.state.Unlock()
	for _, name := range v.Names() {
		m := owner[name]
		for _, view := range []*shards.View{v, shown} {
			o, is := view.Owner(name)
			switch {
			case m == nil && (o.State == shards.Owned || o.State == shards.Draining):
				g.violated("shard %s is said to be %v, and has no owner", name, o.State)
			case m != nil && (!is || o.State != shards.Owned || o.Session != m.ID() || o.Token != g.state.latest[name].shard.Token()):
				g.violated("shard %s is said to be %+v", name, o)
			}
		}
		if m == nil {
			unowned++
		}
	}
	for _, view := range []*shards.View{v, shown} {
		if view.Unowned != unowned || view.Draining != 0 || len(view.Members) != len(g.state.members) {
			g.violated("a view has %d members, %d unowned and %d draining; %d and %d are right", len(view.Members), view.Unowned, view.Draining, len(g.state.members), unowned)
		}
		for _, info := range view.Members {
			i := slices.IndexFunc(g.state.members, func(m *randomMember) bool { return m.ID() == info.Session })
			if i < 0 {
				g.violated("there is no member of session %s", info.Session)
				continue
			}
			if m := g.state.members[i]; info.Weight != m.weight || info.Limit != m.limit || info.Value != m.value || info.Owned != m.load() || info.Leaving {
				g.violated("a member is said to be %+v, and has weight %d, limit %d, value %s, load %d", info, m.weight, m.limit, m.value, m.load())
			}
		}
	}
	if err := g.views.Health(context.Background()); (err == nil) != (unowned == 0) {
		g.violated("Health: %v, and %d shards have no owner", err, unowned)
	}
}

// changesOnce makes one change to the group that rests: a join takes the share of the new member, and a leave and a crash move the
// shards of that member alone, each once.
func (g *randomGroup) changesOnce(random *rand.Rand) {
	owners := func() map[string]*randomMember {
		all := make(map[string]*randomMember)
		for _, m := range g.state.members {
			for _, name := range m.shards() {
				all[name] = m
			}
		}
		return all
	}
	before, hasBars := owners(), false
	for _, m := range g.state.members {
		hasBars = hasBars || m.limit < shards.MaxShards || slices.ContainsFunc(slices.Collect(maps.Values(m.barred)), time.Now().Before)
	}
	var changed *randomMember
	kind := []string{"join", "leave", "crash", "rolling restart"}[g.plan.seed%4]
	most := 20 * time.Second // a lease, two polls, and a drain
	one := shardStep{member: random.Uint64()}
	switch {
	case kind == "join" || len(g.state.members) == 1:
		kind, most = "join", 16*2*shards.DefaultRebalanceDelay // while members die young
		changed = g.join(rand.New(rand.NewPCG(random.Uint64(), 4)))
		hasBars = hasBars || changed.limit < shards.MaxShards
	case kind == "leave":
		changed = g.takeOne(one)
		changed.cancel()
	case kind == "rolling restart":
		g.restarts(random, hasBars)
		return
	default:
		changed = g.takeOne(one)
		most += g.poisonOf(changed)
		g.kill(changed)
	}
	most = g.slow(most)
	// While all others pause, its shards wait.
	hasBars = hasBars || !slices.ContainsFunc(g.state.members, func(m *randomMember) bool { return m != changed && m.weight > 0 })
	share := changed.load()
	time.Sleep(returnTime)
	took := g.untilEven(most + mostUneven)
	g.mu.Lock()
	moves := g.mu.starts // also of shards that had no owner since tokens were forgotten
	g.mu.Unlock()
	_, gaps := g.reset()
	after := owners()
	g.counts.add("rest: " + kind)
	if hasBars {
		return
	}
	g.w.Logf("seed %d: %s: even after %v, %d moves, longest gap %v", g.plan.seed, kind, took+returnTime, moves, at(gaps, 1))
	for name, m := range before {
		if after[name] != m && m != changed && after[name] != changed {
			g.violated("%s: shard %s moved between others", kind, name)
		}
	}
	if kind == "join" {
		share = changed.load()
	}
	if moves != share {
		g.violated("%s: %d moves for a share of %d", kind, moves, share)
	}
	bound := 1100*time.Millisecond + g.server.slack
	if kind == "crash" {
		bound = most
	}
	if longest := at(gaps, 1); longest > bound {
		g.violated("%s: a shard had no owner for %v", kind, longest)
	}
}

// poisonOf returns the longest time that a shard of a member waits if the member dies now.
func (g *randomGroup) poisonOf(m *randomMember) (longest time.Duration) {
	v, err := g.views.View(context.Background())
	if err != nil {
		g.violated("no view: %v", err)
		return 0
	}
	for _, name := range m.shards() {
		o, _ := v.Owner(name)
		longest = max(longest, poisonPause(o.Losses+1))
	}
	return longest
}

// restarts replaces each member by another one of its weight and limit, and requires that no more shards move than guarantee 7 says.
func (g *randomGroup) restarts(random *rand.Rand, hasBars bool) { //nolint:revive // what the group may not do
	before := slices.Clone(g.state.members)
	n := 0
	for _, m := range before {
		n += m.load()
	}
	for _, m := range before {
		g.join(rand.New(rand.NewPCG(random.Uint64(), 4)), m)
		time.Sleep(time.Duration(random.Int64N(int64(shards.DefaultRebalanceDelay))))
		g.state.Lock()
		g.removeLocked(m)
		g.state.Unlock()
		m.cancel()
		g.untilEven(mostUneven)
	}
	g.counts.add("rest: rolling restart")
	g.mu.Lock()
	moves := g.mu.starts // also of shards that had no owner since tokens were forgotten
	g.mu.Unlock()
	if most := 2*n + 2*len(before); !hasBars && (moves < n || moves > most) {
		g.violated("a rolling restart: %d moves for %d shards, at most %d", moves, n, most)
	}
}

// requiredRows are the rows of the tally that must be there.
func requiredRows() (all []string) {
	for verb := range shardVerbs() {
		all = append(all, verb+": done")
	}
	for word := range endsOfShards() {
		all = append(all, "context: "+word)
	}
	return append(all,
		"rest: join", "rest: leave", "rest: crash", "rest: rolling restart", "health: must not be nil",
		"shard: unread for 20 s", "shard: its owners died three times", "shard: begins beside a late function", "shard: begins beside a lost one",
		"member: runs as many as its limit",
	)
}
