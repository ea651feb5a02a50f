// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// patience is how long the poller waits for a reply.
	patience = time.Second
	// sameJoin is for how long a join without a reply is sent again with its id. The lease counts from the first time.
	sameJoin = time.Second
	// maxPipeline is how many releases go in one pipeline.
	maxPipeline = 8
	// leavePause is the pause between two calls of leave, while the server has shards that are not released.
	leavePause = 50 * time.Millisecond
)

// poller is what the goroutine of a membership knows. No other goroutine uses it.
type poller struct {
	seen     string        // the version of the last news
	nextPoll clock.Instant // when the next poll is due
	retryAt  clock.Instant // nothing is sent before this: the last calls failed
	fails    int           // how many calls in a row failed
	replied  clock.Instant // when the last call was sent that had a reply
	leaveAt  clock.Instant // when the next leave is due
	left     bool          // the server knows that the membership retires
	gone     bool          // the server knows no such member: releases alone may still have an effect
	names    *syncer       // the names of New are yet to be set; nil otherwise
}

// task is what a poller does next.
type task uint8

const (
	sleepTask task = iota
	releaseTask
	settingsTask
	leaveTask
	pollTask
	syncTask
	endTask
)

// run is the goroutine of a membership.
func (ms *membership) run() {
	defer ms.end()
	if !ms.join() {
		return
	}
	base := &ms.member.group.base
	for done := ms.member.group.registry.Context().Done(); ; {
		next, in := ms.nextTask(clock.Now())
		switch next {
		case endTask:
			return
		case sleepTask:
			base.Session.Sleep(ms.member.group.registry.Context(), in, ms.wake)
		default:
			ms.record(ms.do(next))
		}
		select {
		case <-done: // the session is closed
			return
		default:
		}
	}
}

// end ends the membership: its poller ends. Grants that are not over remain until their work has stopped, so that no
// other one of the shard begins here.
func (ms *membership) end() {
	m := ms.member
	base := &m.group.base
	ms.subscription.Close()
	base.Session.Timers.Cancel(&ms.timer)
	if ms.number != "" {
		_ = ms.term.Stop(clock.Now())
	}
	m.mu.Lock()
	ms.state = retiring
	ms.reportEndLocked(m.mu.cause)
	m.mu.memberships--
	if m.mu.current == ms {
		m.mu.current = nil
	}
	ms.releases = nil
	m.wakeLocked()
	m.unlock()
	ms.cancel(base.Named("", errs.ErrLostGone)) // what may still be bound to it, as after Close
}

// join sends the join until the server replies. It returns false if the membership is not to be, or cannot.
func (ms *membership) join() bool {
	m := ms.member
	base := &m.group.base
	var attempt joinAttempt
	for fails := 0; ; fails++ {
		m.mu.Lock()
		leaves, desired := ms.state == retiring, m.mu.desired
		m.mu.Unlock()
		if leaves || m.group.registry.Context().Err() != nil {
			return false
		}
		err := ms.tryJoin(&attempt, desired)
		if err == nil {
			return true
		}
		if wire.Judge(err) == wire.Final && !(m.hasJoined() && errors.Is(err, errs.ErrDenied)) {
			m.leave(err)
			return false
		}
		m.failed(err)
		if !errors.Is(err, errLate) {
			base.Session.BackOff(m.group.registry.Context(), fails, ms.wake)
		}
	}
}

// joinAttempt is a join that is sent until a reply.
type joinAttempt struct {
	id      string
	sent    clock.Instant // when it was sent first
	desired settings      // what it has sent
}

// tryJoin sends the join once.
func (ms *membership) tryJoin(a *joinAttempt, desired settings) error {
	g := ms.member.group
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	if err := g.base.Session.Handshake(ctx, g.keys[0]); err != nil {
		return errs.OfCall(ctx, err)
	}
	now := clock.Now()
	if a.id == "" || now.Mono()-a.sent.Mono() > sameJoin {
		*a = joinAttempt{g.base.Session.NewTicket(), now, desired}
	}
	reply, err := g.base.Session.Runner.Run(ctx, ms.member.joinCall(a.id, ms.old, a.desired))
	if err != nil {
		return err
	}
	r, err := g.readJoin(&reply)
	if err != nil {
		a.id = "" // it had no effect
		return err
	}
	if g.set.names != nil && r.count == 0 && r.digest == "" {
		ms.poller.names = newSyncer(g, g.set.names)
	}
	ms.poller.replied = a.sent
	ms.live(r, a.sent, a.desired)
	return nil
}

// nextTask returns what to do at now, or for how long to sleep.
func (ms *membership) nextTask(now clock.Instant) (next task, in time.Duration) {
	p, m := &ms.poller, ms.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if ms.hinted {
		ms.hinted, p.nextPoll = false, now
	}
	isDone := ms.state == retiring && ms.owned == 0
	switch wait := p.retryAt.Mono() - now.Mono(); {
	case isDone && p.fails > 0 && now.Mono()-p.replied.Mono() > m.group.base.Terms.Lease:
		return endTask, 0 // the lease of what is left has ended at the server
	case p.fails > 0 && wait > 0:
		return sleepTask, wait
	case len(ms.releases) > 0:
		return releaseTask, 0
	case p.gone && isDone:
		return endTask, 0
	case p.gone:
		return sleepTask, time.Minute // until work has stopped
	case ms.state == retiring && (!p.left || isDone && p.leaveAt.Mono() <= now.Mono()):
		return leaveTask, 0
	case ms.state == active && ms.known != m.mu.desired.number:
		return settingsTask, 0
	case p.nextPoll.Mono() <= now.Mono():
		return pollTask, 0
	case ms.state == active && p.names != nil:
		return syncTask, 0
	case isDone:
		return sleepTask, min(p.leaveAt.Mono(), p.nextPoll.Mono()) - now.Mono()
	default:
		return sleepTask, p.nextPoll.Mono() - now.Mono()
	}
}

// record counts the calls that failed.
func (ms *membership) record(err error) {
	p := &ms.poller
	if err == nil || errors.Is(err, errLate) {
		ms.member.failed(nil)
		p.fails = 0
		return
	}
	ms.member.failed(err)
	p.retryAt = clock.Now().Add(session.BackOffPause(p.fails))
	p.fails++
}

// do sends the calls of a task.
func (ms *membership) do(t task) error {
	p := &ms.poller
	sent := clock.Now()
	var err error
	switch t {
	case releaseTask:
		err = ms.sendReleases()
	case settingsTask:
		err = ms.sendSettings()
	case leaveTask:
		err = ms.sendLeave()
	case syncTask:
		err = ms.syncPage()
	default:
		err = ms.poll(sent)
	}
	if err == nil {
		p.replied = sent
	}
	return err
}

// send sends one call. gone reports that the server knows no such member: its lease is over.
func (ms *membership) send(call wire.Call) (reply wire.Reply, gone bool, err error) {
	g := ms.member.group
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	if reply, err = g.base.Session.Runner.Run(ctx, call); err == nil {
		err = g.observe(&reply)
	}
	if err != nil {
		return reply, false, err
	}
	return reply, reply.Code() == wire.NotDone && ms.goneNow(), nil
}

// goneNow ends the lease because the server knows no such member. It returns true.
func (ms *membership) goneNow() bool {
	ms.poller.gone = true
	ms.term.Gone()
	return true
}

// pollSoon brings the next poll forward if the server has more for it.
func (ms *membership) pollSoon(more int64) {
	if more == 1 {
		ms.poller.nextPoll = clock.Now()
	}
}

// poll sends a heartbeat, and handles the news.
func (ms *membership) poll(sent clock.Instant) error {
	g := ms.member.group
	reply, gone, err := ms.send(g.publishing(scripts.ShardsPoll, ms.number, ms.poller.seen))
	if err != nil || gone {
		return err
	}
	p, err := readPoll(&reply)
	if err != nil {
		return err
	}
	if !ms.term.Extended(p.life, sent) {
		_ = ms.err() // it is over, and the reply grants nothing
	}
	ms.reportSlow()
	ms.poller.nextPoll = sent.Add(dispatch.JitteredInterval(ms.subscription.PollInterval(), 1))
	ms.handle(p)
	if p.more {
		ms.poller.nextPoll = clock.Now()
	}
	return nil
}

// sendReleases releases shards at the server, the oldest first. Those without a reply are sent again.
func (ms *membership) sendReleases() error {
	g, m := ms.member.group, ms.member
	m.mu.Lock()
	batch := ms.releases[:min(len(ms.releases), maxPipeline*maxReleases)]
	m.mu.Unlock()
	var calls []wire.Call
	for from := 0; from < len(batch); from += maxReleases {
		calls = append(calls, g.releaseCall(ms.number, batch[from:min(from+maxReleases, len(batch))]))
	}
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	var kept []released
	var failed error
	for i, outcome := range g.base.Session.Runner.RunMany(ctx, calls) {
		err := outcome.Err
		if err == nil {
			err = g.observe(&outcome.Reply)
		}
		switch {
		case err != nil:
			kept, failed = append(kept, batch[i*maxReleases:min((i+1)*maxReleases, len(batch))]...), err
		case outcome.Reply.Code() == wire.NotDone:
			ms.goneNow()
		default:
			ms.pollSoon(outcome.Reply.Int(2))
		}
	}
	m.mu.Lock()
	ms.releases = append(kept, ms.releases[len(batch):]...) // others appended meanwhile
	m.wakeLocked()
	m.mu.Unlock()
	if failed == nil {
		ms.poller.leaveAt = clock.Now() // it may have been the last one
	}
	return failed
}

// sendSettings sends the settings of the member.
func (ms *membership) sendSettings() error {
	g, m := ms.member.group, ms.member
	m.mu.Lock()
	desired := m.mu.desired
	m.mu.Unlock()
	state := "l"
	if desired.weight == 0 {
		state = "p"
	}
	reply, gone, err := ms.send(g.publishing(scripts.ShardsSet,
		ms.number, strconv.Itoa(max(desired.weight, 1)), strconv.Itoa(g.options.Limit), state, desired.value))
	if err != nil || gone {
		return err
	}
	ms.pollSoon(reply.Int(2))
	m.mu.Lock()
	ms.known = desired.number
	m.wakeLocked()
	m.mu.Unlock()
	return nil
}

// sendLeave says that the member takes nothing more and, once all is released, that it is gone.
func (ms *membership) sendLeave() error {
	reply, gone, err := ms.send(ms.member.group.publishing(scripts.ShardsLeave, ms.number))
	if err != nil || gone {
		return err
	}
	ms.pollSoon(reply.Int(2))
	ms.member.mu.Lock()
	isDone := ms.owned == 0 && len(ms.releases) == 0
	ms.member.mu.Unlock()
	if reply.Int(3) == 0 && isDone {
		ms.poller.gone = true
		return nil
	}
	ms.poller.left = true
	ms.poller.leaveAt = clock.Now().Add(leavePause)
	if isDone {
		ms.poller.nextPoll = clock.Now() // it says what is left
	}
	return nil
}

// syncPage sets the next names of New.
func (ms *membership) syncPage() error {
	whole, err := ms.poller.names.step(ms.send)
	if whole {
		ms.poller.names = nil
	}
	return err
}
