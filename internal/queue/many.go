// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// LockRequest is a request for one of several exclusive locks that one call acquires.
type LockRequest struct {
	Queue   *Queue
	Request *Request
}

// AcquireMany acquires locks in one call, in order, until a lock is held or has a queue. It returns the holds of the
// acquired locks. After an error it returns no holds.
func AcquireMany(ctx context.Context, script *scripts.Script, requests []LockRequest) ([]*Attempt, error) {
	s, first := requests[0].Queue.registry.session, requests[0].Queue
	if err := s.Handshake(ctx, first.keys.Holder); err != nil {
		return nil, err
	}
	attempts := make([]*Attempt, len(requests))
	call := wire.Call{Script: script, Keys: make([]string, len(requests)), Args: make([]string, 0, 4*len(requests))}
	sent := timers.Now()
	for i, request := range requests {
		a := request.Queue.newAttempt(request.Request)
		a.q.registry.mu.Lock()
		enterExchange{a}.prepareEnterLocked(sent)
		a.q.registry.mu.Unlock()
		attempts[i], call.Keys[i] = a, request.Queue.keys.Holder
		one := proto.AcquireOne{Ticket: a.ticket(), LifeMS: wire.Milliseconds(a.request.Life), NotAfter: a.footprint.NotAfter.Text(), Label: s.Settings.Label}
		call.Args = one.AppendTo(call.Args)
	}
	reply, err := s.Runner.Run(ctx, call)
	if err != nil {
		s.Runner.Span.SpanFailed(err)
		for _, a := range attempts {
			enterExchange{a}.handleEnterError(err)
			a.Abandon()
		}
		return nil, err
	}
	acquired := 0
	for i, a := range attempts[:min(reply.Len(), len(attempts))] {
		if (enterExchange{a}).acquiredByBatch(proto.ReadAcquiredOne(&reply, i), sent) && i == acquired { // read each part: the server may have granted later locks, too
			acquired++
		}
	}
	for _, a := range attempts[acquired:] {
		a.Abandon()
	}
	return attempts[:acquired], nil
}

// acquiredByBatch reports whether a got its lock, with that stamp, which is 0 if it did not. The reason is found out by the call
// that asks for that lock alone.
func (a enterExchange) acquiredByBatch(stamp wire.Stamp, sent timers.Instant) bool {
	registry, now := a.q.registry, timers.Now()
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if stamp == 0 {
		return false
	}
	a.leftTicketLocked()
	if timers.Deadline(sent, a.request.Life).Reached(now) || a.q.isSupersededLocked(a.Attempt, stamp) {
		return false // the hold expired before it began
	}
	a.grant = a.newGrant(stamp, stamp, a.request.Life, sent, now)
	a.toLocked(begun)
	return true
}

// LockRelease is the release of one of several holds that are released together, and its result.
type LockRelease struct {
	Attempt   *Attempt
	LastUsed  wire.Stamp    // see Attempt.Release
	ExpiresIn time.Duration // see Attempt.Release
	WasHeld   bool          // the result of Attempt.Release
	Err       error         // the error of Attempt.Release
}

// ReleaseMany releases holds of exclusive locks, and waits for the replies until ctx ends. Locks without a queue are
// released in one call, or in one call for each slot. The other locks are handed off, in one pipeline.
func ReleaseMany(ctx context.Context, script *scripts.Script, releases []*LockRelease) {
	s := releases[0].Attempt.q.registry.session
	groups := groupBySlot(ctx, s, releases)
	calls := make([]wire.Call, len(groups))
	for n, group := range groups {
		calls[n].Script = script
		for _, r := range group {
			r.Attempt.Register(nil) // see Release
			calls[n].Keys = append(calls[n].Keys, r.Attempt.q.keys.Holder)
			one := proto.ReleaseOne{Ticket: r.Attempt.Name(), Used: leaveExchange{r.Attempt}.usedArg(r.LastUsed), KeepMS: r.Attempt.request.FloorTTL}
			calls[n].Args = one.AppendTo(calls[n].Args)
		}
	}
	var rest []*LockRelease
	for n, outcome := range s.Runner.RunMany(ctx, calls) {
		again := len(groups[n]) > 1 && outcome.Err != nil && s.Runner.Span.SpanFailed(outcome.Err)
		for i, r := range groups[n] {
			if r.releasedByBatch(&outcome, i, again) {
				rest = append(rest, r)
			}
		}
	}
	releaseOneByOne(ctx, s, rest)
}

// groupBySlot divides holds into those that one script may release.
func groupBySlot(ctx context.Context, s *session.Session, releases []*LockRelease) [][]*LockRelease {
	if len(releases) < 2 || s.Runner.Span.SpansSlots(ctx) {
		return [][]*LockRelease{releases}
	}
	slices.SortStableFunc(releases, func(a, b *LockRelease) int { return int(a.Attempt.q.keys.Slot) - int(b.Attempt.q.keys.Slot) })
	var groups [][]*LockRelease
	for from, i := 0, 1; i <= len(releases); i++ {
		if i == len(releases) || releases[i].Attempt.q.keys.Slot != releases[from].Attempt.q.keys.Slot {
			groups, from = append(groups, releases[from:i]), i
		}
	}
	return groups
}

// releasedByBatch records the i-th reply of a script that released several holds. It returns true if this hold has to be
// released by a call of its own. That is so if the script replied that the hold is gone, because the script may have run at
// a shard that does not have the key. again says that the call failed, and that the slots of the keys may be the reason.
func (r *LockRelease) releasedByBatch(outcome *wire.Outcome, i int, again bool) bool {
	part, failure := outcome.Reply, outcome.Err
	if failure == nil {
		part, failure = outcome.Reply.Part(i)
	}
	r.Err = failure
	switch {
	case failure != nil && wire.Judge(failure) == wire.Unknown && !again:
		r.endAttempt()
		return false
	case failure != nil || part.Code() != wire.Done || !r.Attempt.footprint.HasNoTicket():
		r.WasHeld = failure == nil && part.Code() == wire.Done
		return true
	}
	r.WasHeld = true
	r.endAttempt()
	return false
}

// endAttempt ends the attempt of a hold that was released, or may have been.
func (r *LockRelease) endAttempt() {
	r.Attempt.end()
	if r.Err != nil {
		leaveExchange{r.Attempt}.handleReleaseError(r.Err, r.ExpiresIn)
		return
	}
	r.Attempt.forget()
}

// releaseOneByOne releases holds by one call for each.
func releaseOneByOne(ctx context.Context, s *session.Session, releases []*LockRelease) {
	if len(releases) == 0 {
		return
	}
	calls := make([]wire.Call, len(releases))
	for i, r := range releases {
		calls[i] = leaveExchange{r.Attempt}.leaveCall(nil, nil, r.LastUsed)
	}
	for i, outcome := range s.Runner.RunMany(ctx, calls) {
		r := releases[i]
		if wire.TryAgain(outcome.Err) {
			r.WasHeld, r.Err = r.Attempt.Release(ctx, r.LastUsed, r.ExpiresIn)
			continue
		}
		if r.Err = outcome.Err; r.Err != nil {
			r.endAttempt()
			continue
		}
		r.Attempt.end()
		left := proto.ReadLeft(&outcome.Reply)
		leaveExchange{r.Attempt}.applyGranted(left.Granted)
		leaveExchange{r.Attempt}.finish(false)
		r.WasHeld = r.WasHeld || left.WasHeld()
	}
}
