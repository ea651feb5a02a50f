// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"slices"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// sendReleases releases the shards that are due at the server, in calls of some shards each. Those of a call without a reply are
// sent again. Those of a call that the server refused are sent one by one, so that none takes another with it, unless it refuses all.
func (ms *membership) sendReleases() error {
	g, m := ms.member.group, ms.member
	m.mu.Lock()
	parts := ms.dueLocked(timers.Now())
	m.mu.Unlock()
	calls := make([]wire.Call, 0, len(parts))
	for _, part := range parts {
		calls = append(calls, g.releaseCall(ms.number, part))
	}
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	var failed error
	over := make(map[*released]struct{})
	for i, outcome := range g.base.Session.Runner.RunMany(ctx, calls) {
		err := outcome.Err
		if err == nil {
			err = g.observe(proto.ReadShardsHead(&outcome.Reply))
		}
		switch {
		case err != nil:
			failed = err
		case outcome.Reply.Code() == wire.NotDone:
			ms.goneNow()
		default:
			ms.pollSoon(proto.ReadShardsChanged(&outcome.Reply))
		}
		for _, r := range parts[i] {
			was := *r
			if err == nil || len(parts[i]) == 1 && isWrong(err) && !ms.isLeft(r, err) {
				over[r] = struct{}{}
				continue
			}
			r.alone = isWrong(err) || wire.IsReplyError(err) && (wire.Judge(err) != wire.Temporary || wire.OutOfMemory(err))
			isChanged := r.alone && !was.alone || r.release != was.release // it is sent in another way at once
			if !isChanged {
				r.failed()
			}
		}
	}
	if len(over) == 0 {
		return failed
	}
	m.mu.Lock()
	ms.releases = slices.DeleteFunc(ms.releases, func(r *released) bool {
		_, is := over[r]
		return is
	})
	m.wakeLocked()
	m.mu.Unlock()
	ms.poller.tries[leaveTask].due = timers.Now() // one of them may have been the last one
	return nil
}

// isAlone reports whether a release is sent by itself: the server has refused it with others. While polls are refused, too, none is.
func (ms *membership) isAlone(r *released) bool {
	refusesAll := !ms.poller.gone && ms.poller.tries[pollTask].fails > 0
	return r.alone && !refusesAll
}

// waitTogetherLocked lets the releases that go together wait as long as those of them that have failed. One for which the last calls had no
// room, or that is new, would otherwise be sent at once, and the first ones with it, without any pause.
func (ms *membership) waitTogetherLocked() {
	var last *released
	for _, r := range ms.releases {
		if !ms.isAlone(r) && r.fails > 0 && (last == nil || r.due.Mono() > last.due.Mono()) {
			last = r
		}
	}
	for _, r := range ms.releases {
		if last != nil && !ms.isAlone(r) && r.due.Mono() < last.due.Mono() {
			r.tries = last.tries
		}
	}
}

// dueLocked returns the releases that are due, in parts: one for each call. The others than those that are alone go together when one of
// them is due: a call each, and again while the server refuses all, would be many.
func (ms *membership) dueLocked(now timers.Instant) (parts [][]*released) {
	var part []*released
	isDue := func(r *released) bool { return r.due.Mono() <= now.Mono() }
	together := slices.ContainsFunc(ms.releases, func(r *released) bool { return !ms.isAlone(r) && isDue(r) })
	for _, r := range ms.releases {
		switch {
		case len(parts) == maxPipeline:
			return parts
		case ms.isAlone(r) && !isDue(r), !ms.isAlone(r) && !together:
			continue
		case ms.isAlone(r):
			parts = append(parts, []*released{r})
			continue
		}
		if part = append(part, r); len(part) == maxReleases {
			parts, part = append(parts, part), nil
		}
	}
	if len(part) > 0 {
		parts = append(parts, part)
	}
	return parts
}

// isLeft reports whether a release that the server calls wrong can be sent in another way: without what the work said of it. If that
// is wrong as well the release is given up, and the lease ends, so that the shard is granted anew.
func (ms *membership) isLeft(r *released, err error) bool {
	ms.member.group.base.LogFailed(fmt.Errorf("shard %.80q: the server calls its release wrong: %w", r.name, err))
	if r.release != (release{}) {
		r.release = release{}
		return true
	}
	ms.poller.gone = true // so that it does not poll for ever; the lease ends at the server when all work has stopped
	ms.lose(fmt.Errorf("%w: a release is wrong: %w", errs.ErrLostGone, err))
	return false
}
