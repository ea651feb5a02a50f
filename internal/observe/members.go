// SPDX-License-Identifier: Apache-2.0

package observe

import "context"

// MemberReports are the calls of the hooks for one member of a group of shards. Each observer has a stream of its own: a slow hook
// delays no poll, and no other observer. A nil MemberReports reports nothing.
type MemberReports struct {
	observer *Observer
	ctx      context.Context //nolint:containedctx // that of the member
	labels   Labels
	streams  []stream // by observer
}

// Member returns the reports of a member with these labels, whose hooks are called with ctx. It is called with no observer, too.
func (o *Observer) Member(ctx context.Context, l Labels) *MemberReports {
	if o == nil {
		return nil
	}
	return &MemberReports{observer: o, ctx: ctx, labels: l, streams: o.makeStreams()}
}

// Joined reports a membership that begins.
func (m *MemberReports) Joined(e Event) {
	m.report(func(g *Hooks) Hook { return g.MemberJoined }, e)
}

// Left reports a membership that ends.
func (m *MemberReports) Left(e Event) {
	m.report(func(g *Hooks) Hook { return g.MemberLeft }, e)
}

// Granted reports a shard that the member owns now.
func (m *MemberReports) Granted(e Event) {
	m.report(func(g *Hooks) Hook { return g.ShardGranted }, e)
}

// Draining reports a shard whose work must stop.
func (m *MemberReports) Draining(e Event) {
	m.report(func(g *Hooks) Hook { return g.ShardDraining }, e)
}

// Slow reports a shard whose work must have stopped for long.
func (m *MemberReports) Slow(e Event) {
	m.report(func(g *Hooks) Hook { return g.ShardSlow }, e)
}

// Released reports a shard that the member releases.
func (m *MemberReports) Released(e Event) {
	m.report(func(g *Hooks) Hook { return g.ShardReleased }, e)
}

// report adds a call of a hook to the stream of each observer. It does not block, so the caller may hold a lock.
func (m *MemberReports) report(hookOf func(*Hooks) Hook, e Event) {
	if m == nil {
		return
	}
	e.Kind, e.Class, e.Name = m.labels.Kind, m.labels.Class, m.labels.Name
	for i := range m.streams {
		m.streams[i].add(m.ctx, hookOf(&m.observer.hooks[i]), e)
	}
}
