// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"sync"
)

// MemberReports are the calls of the hooks for one member of a group of shards. They are made one after the other, in order, on a
// goroutine that runs while there are any: a slow hook delays no poll. A nil MemberReports reports nothing.
type MemberReports struct {
	observer *Observer
	labels   Labels
	call     func(hook Hook, e Event) // calls a hook, with the context of the member

	mu    sync.Mutex
	calls []hookCall // the calls that are left; the first one is being made. Guarded by mu
}

type hookCall struct {
	hook  Hook
	event Event
}

// Member returns the reports of a member with these labels, whose hooks are called with ctx. It is called with no observer, too.
func (o *Observer) Member(ctx context.Context, l Labels) *MemberReports {
	if o == nil {
		return nil
	}
	return &MemberReports{observer: o, labels: l, call: func(hook Hook, e Event) { o.call(hook, ctx, e) }}
}

// Joined reports a membership that begins.
func (m *MemberReports) Joined(e Event) {
	m.report(func(o *Observer) Hook { return o.MemberJoined }, e)
}

// Left reports a membership that ends.
func (m *MemberReports) Left(e Event) {
	m.report(func(o *Observer) Hook { return o.MemberLeft }, e)
}

// Granted reports a shard that the member owns now.
func (m *MemberReports) Granted(e Event) {
	m.report(func(o *Observer) Hook { return o.ShardGranted }, e)
}

// Draining reports a shard whose work must stop.
func (m *MemberReports) Draining(e Event) {
	m.report(func(o *Observer) Hook { return o.ShardDraining }, e)
}

// Slow reports a shard whose work must have stopped for long.
func (m *MemberReports) Slow(e Event) {
	m.report(func(o *Observer) Hook { return o.ShardSlow }, e)
}

// Released reports a shard that the member releases.
func (m *MemberReports) Released(e Event) {
	m.report(func(o *Observer) Hook { return o.ShardReleased }, e)
}

// report adds a call of a hook, if there is one. It does not block, so the caller may hold a lock.
func (m *MemberReports) report(hookOf func(*Observer) Hook, e Event) {
	if m == nil {
		return
	}
	hook := hookOf(m.observer)
	if hook == nil {
		return
	}
	labels := m.observer.event(m.labels)
	e.Kind, e.Class, e.Name = labels.Kind, labels.Class, labels.Name
	if !m.observer.Names {
		e.Shard = ""
	}
	m.observer.pending.add()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls = append(m.calls, hookCall{hook, e}); len(m.calls) == 1 {
		go m.run()
	}
}

// run makes the calls until there are no more.
func (m *MemberReports) run() {
	for left := true; left; {
		m.mu.Lock()
		next := m.calls[0]
		m.mu.Unlock()
		m.call(next.hook, next.event)
		m.observer.pending.done()
		m.mu.Lock()
		m.calls = m.calls[1:]
		left = len(m.calls) > 0
		m.mu.Unlock()
	}
}
