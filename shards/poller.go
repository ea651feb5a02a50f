// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
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
	seen    string           // the version of the last news
	said    uint64           // the number of the last settings that it has confirmed; 0 if they are those of the join
	tries   [taskCount]tries // the tries of each task
	replied timers.Instant   // when the last call was sent that had a reply
	gone    bool             // the server knows no such member, or has ended it: releases and a leave may still have an effect
	removed bool             // the server has nothing of the member any more, or calls what says so wrong
	names   *syncer          // names that are yet to be set; nil if no name is
	lostOf  string           // when a caller gave the group the set of what the server may have lost; see compare
	lostSet string           // what the last poll knew of a set that the server has lost, until it is said again; or ""
}

// task is what a poller does next. Of two tasks that are due at once the lesser one is first.
type task uint8

const (
	releaseTask task = iota
	leaveTask
	settingsTask
	pollTask
	syncTask
	taskCount // how many tasks send something
	joinTask  = pollTask
	sleepTask = taskCount
	endTask   = taskCount + 1
)

// tries says when a task is due, or a release. Each has its own: one whose calls fail, or which has much to send, delays no other,
// because what is due for longest comes first, and a failure makes it due later.
type tries struct {
	due   timers.Instant // nothing is sent before
	fails int            // how many calls in a row failed
}

// failed makes it due later.
func (t *tries) failed() {
	t.due = timers.Now().Add(session.BackOffPause(t.fails))
	t.fails++
}

func (ms *membership) run() {
	defer ms.end()
	if !ms.join() {
		return
	}
	base := &ms.member.group.base
	for done := ms.member.group.registry.Context().Done(); ; {
		next, in := ms.nextTask(timers.Now())
		switch next {
		case endTask:
			return
		case sleepTask:
			base.Session.Sleep(ms.member.group.registry.Context(), in, ms.wake)
		default:
			ms.record(next, ms.do(next))
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
		_ = ms.term.Stop(timers.Now())
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
		m.failed(joinTask, err)
		if !errors.Is(err, errLate) {
			base.Session.BackOff(m.group.registry.Context(), fails, ms.wake)
		}
	}
}

// joinAttempt is a join that is sent until a reply.
type joinAttempt struct {
	id      string
	sent    timers.Instant // when it was sent first
	desired settings       // what it has sent
}

// tryJoin sends the join once.
func (ms *membership) tryJoin(a *joinAttempt, desired settings) error {
	g := ms.member.group
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	if err := g.base.Session.Handshake(ctx, g.keys[0]); err != nil {
		return errs.OfCall(ctx, err)
	}
	now, old := timers.Now(), ms.old
	if old != "" {
		ms.member.mu.Lock()
		old += ms.member.mu.last.Text()
		ms.member.mu.Unlock()
	}
	if a.id == "" || now.Mono()-a.sent.Mono() > sameJoin {
		*a = joinAttempt{g.base.Session.NewTicket(), now, desired}
	}
	reply, err := g.base.Session.Runner.Run(ctx, ms.member.joinCall(a.id, old, a.desired))
	if err != nil {
		return err
	}
	r, err := proto.ReadShardsJoined(&reply)
	if err == nil {
		err = g.observe(r.ShardsHead)
	}
	if err != nil {
		a.id = "" // it had no effect
		return err
	}
	ms.restore(r.Restored)
	g.warnOfCount(r.Count)
	ms.poller.replied = a.sent
	ms.live(r, a.sent, a.desired)
	return nil
}

// nextTask returns what to do at now, or for how long to sleep.
func (ms *membership) nextTask(now timers.Instant) (next task, in time.Duration) {
	p, m := &ms.poller, ms.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if ms.hinted {
		ms.hinted = false
		if poll := &p.tries[pollTask]; poll.fails == 0 {
			poll.due = now
		}
	}
	hasStopped := ms.state == retiring && ms.owned == 0
	isDone := hasStopped && len(ms.releases) == 0
	if hasStopped && p.isFailing() && now.Mono()-p.replied.Mono() > m.group.base.Terms.Lease || isDone && p.removed {
		return endTask, 0 // nothing is left to send, or the lease of what is left has ended at the server
	}
	wanted := [taskCount]bool{
		leaveTask: ms.state == retiring && (!p.gone && (ms.known != m.mu.desired.number || hasStopped) || isDone),
		// The limit of what is not taken up falls by its releases, and only after them by the settings: so none that works is asked for.
		settingsTask: !p.gone && ms.state == active && ms.known != m.mu.desired.number && !(m.mu.reader.isStuck() && len(ms.releases) > 0),
		pollTask:     !p.gone,
		syncTask:     !p.gone && ms.state == active && (p.names != nil || p.lostSet != ""),
	}
	next, in = sleepTask, time.Minute // until work has stopped
	earlier := func(t task, due timers.Instant) {
		if wait := due.Mono() - now.Mono(); wait < in {
			next, in = t, wait
		}
	}
	ms.waitTogetherLocked()
	for _, r := range ms.releases {
		earlier(releaseTask, r.due)
	}
	for t := range taskCount {
		if wanted[t] {
			earlier(t, p.tries[t].due)
		}
	}
	if in > 0 {
		return sleepTask, in
	}
	return next, 0
}

func (p *poller) isFailing() bool {
	for t := range taskCount {
		if p.tries[t].fails > 0 {
			return true
		}
	}
	return false
}

// record counts the calls of a task that failed.
func (ms *membership) record(t task, err error) {
	tries := &ms.poller.tries[t]
	if err == nil || errors.Is(err, errLate) {
		ms.member.failed(t, nil)
		tries.fails = 0
		return
	}
	ms.member.failed(t, err)
	tries.failed()
}

// isWrong reports that the server calls a call wrong, and not its sender or the moment: it is not sent again.
func isWrong(err error) bool {
	return wire.Judge(err) == wire.Final && !errors.Is(err, errs.ErrDenied) && !errors.Is(err, errs.ErrWrongKind)
}

// do sends the calls of a task.
func (ms *membership) do(t task) error {
	sent := timers.Now()
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
		ms.poller.replied = sent
	}
	return err
}

// send sends one call. gone reports that the server knows no such member: its lease is over.
func (ms *membership) send(call wire.Call) (reply wire.Reply, gone bool, err error) {
	g := ms.member.group
	ctx, cancel := errs.WithTimeout(g.registry.Context(), patience)
	defer cancel()
	if reply, err = g.base.Session.Runner.Run(ctx, call); err == nil {
		err = g.observe(proto.ReadShardsHead(&reply))
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
func (ms *membership) pollSoon(reply proto.ShardsChanged) {
	if reply.More {
		ms.poller.tries[pollTask].due = timers.Now()
	}
}

// poll sends a heartbeat, and handles the news.
func (ms *membership) poll(sent timers.Instant) error {
	g := ms.member.group
	reply, gone, err := ms.send(g.call(proto.ShardsPollScript, proto.ShardsPoll{Number: ms.number, Seen: ms.poller.seen, Publish: g.publish()}.AppendTo(nil)))
	if err != nil || gone {
		return err
	}
	p, err := proto.ReadShardsPolled(&reply)
	if err != nil {
		return err
	}
	news, err := readAllNews(p.News)
	if err != nil {
		return err
	}
	if !ms.term.Extended(p.Life, sent) {
		_ = ms.err() // it is over, and the reply grants nothing
	}
	ms.reportSlow()
	due := sent.Add(notify.JitteredInterval(ms.subscription.PollInterval(), 1))
	if p.More {
		due = timers.Now()
	}
	ms.poller.tries[pollTask].due = due
	m := ms.member
	m.mu.Lock()
	ms.freed = nil // the server has not lost the group since
	seen, set := ms.poller.seen, setIn(m.mu.desired.known)
	if p.Said < ms.poller.said { // the server has lost them, as in a failover behind an endpoint that keeps connections
		m.mu.desired.number++
		ms.poller.said = p.Said
	}
	m.mu.Unlock()
	ms.handle(p, news)
	ms.compare(p, seen, set)
	ms.checkReader(p.Count)
	return nil
}

// sendSettings sends the settings of the member. What the server calls wrong is given up: the caller gets the error.
func (ms *membership) sendSettings() error {
	g, m := ms.member.group, ms.member
	m.mu.Lock()
	desired := m.mu.desired
	m.mu.Unlock()
	reply, gone, err := ms.send(g.call(proto.ShardsSetScript, proto.ShardsSet{
		Number: ms.number, Weight: strconv.Itoa(max(desired.weight, 1)), Limit: strconv.Itoa(desired.limit), Mode: desired.mode(), Value: desired.value,
		Said: strconv.FormatUint(desired.number, 10), Publish: g.publish(),
	}.AppendTo(nil)))
	isRefused := err != nil && wire.Judge(err) == wire.Final
	if err != nil && !isRefused || gone {
		return err
	}
	m.mu.Lock()
	ms.known = desired.number
	if isRefused {
		m.mu.refused = refusal{desired.number, err}
	} else {
		ms.poller.said = desired.number
	}
	m.wakeLocked()
	m.mu.Unlock()
	if isRefused {
		g.base.LogFailed(fmt.Errorf("the server calls the settings of the member wrong: %w", err))
		return nil
	}
	ms.pollSoon(proto.ReadShardsChanged(&reply))
	return nil
}

// sendLeave says that the member takes nothing more and, once all is released, that it is done: the server takes back what it granted
// in replies that were lost, also if the next membership has ended this one. No function of those will run, since a membership that
// retires takes nothing up.
func (ms *membership) sendLeave() error {
	p, m := &ms.poller, ms.member
	m.mu.Lock()
	number := m.mu.desired.number
	isDone := ms.owned == 0 && len(ms.releases) == 0
	m.mu.Unlock()
	reply, gone, err := ms.send(m.group.call(proto.ShardsLeaveScript, proto.ShardsLeave{Number: ms.number, Done: proto.Flag(isDone), Publish: m.group.publish()}.AppendTo(nil)))
	if err != nil || gone {
		p.removed = isDone && (err == nil || isWrong(err)) // what is wrong now stays so: the lease ends at the server
		return err
	}
	left := proto.ReadShardsChanged(&reply)
	ms.pollSoon(left)
	m.mu.Lock()
	ms.known = number
	m.mu.Unlock()
	p.removed = left.Left == 0 && isDone
	p.tries[leaveTask].due = timers.Now().Add(leavePause)
	return nil
}
