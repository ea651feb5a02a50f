// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// listenAfter is how long a session is busy before it listens on its own channel. A shorter hold is over
	// before an operator forces it, and pays for no subscription.
	listenAfter = 100 * time.Millisecond
	// listenIdle is how long an idle session continues to listen. The channel lingers after that.
	listenIdle = time.Second
)

// forceListener listens on the session's own channels for holds of the session that another process ended by force. A
// message is a hint that any client could send: the session asks the server. On the channel of the session's id it
// listens for recalls too: another session wants a lock whose hold may be idle.
//
// The channels end with the id of the session, and with the aliases of its registries.
//
//	                busy for listenAfter
//	Not listening ----------------------> Listening
//	     ^                                    |
//	     +----------- idle for listenIdle ----+
//
// A request whose hold may be recalled begins listening at once (ListenForRecalls).
//
// One timer serves both changes, and an alias that is new while the session listens. It is scheduled only if it is not
// scheduled yet: a lock that is acquired and released again and again reads a flag each time.
type forceListener struct {
	session  *Session
	entry    timers.Timer
	channels []*forceChannel // the channels of the first channelEnds; used by Fire alone
	// recallsSince is when the subscription to recalls was confirmed; nil without one. It is set under the session's mu.
	recallsSince atomic.Pointer[timers.Instant]
}

// forceChannel is a channel on which a forceListener listens.
type forceChannel struct {
	notify.Subscription

	session *Session
	noting  sync.Mutex // held while noteSubscription compares and records
	// unconfirmed is set before listening begins and cleared by the first subscription: no message reported holds
	// that were forced between the acquire and that. After a break of the connection the renewals find out.
	unconfirmed atomic.Bool
}

type listenState struct {
	never     bool // the session polls, and does not listen
	listening bool
	wanted    bool // listening is to begin at once, also if the session is idle by then
	// own is the channel of the session's id; nil unless the session listens. It is compared under the lock, since a channel
	// that is closed may still be confirmed.
	own            *forceChannel
	scheduled      bool   // the timer is scheduled
	idles          uint64 // how often the session became idle
	scheduledIdles uint64 // the value of idles when the timer was scheduled
	// channelEnds are the last parts of the channels' names. They are appended and never changed, so Fire reads without
	// the lock what it saw under it.
	channelEnds []string
}

// AliasedRegistry is a KindRegistry whose holds do not contain the id of the session, but an alias. A call that ends one
// by force publishes to the alias.
type AliasedRegistry interface {
	Alias() string // "" if the holds contain the id
}

// addAlias adds the alias of a registry, also if the session listens already.
func (l *forceListener) addAlias(p KindRegistry) {
	part, is := p.(AliasedRegistry)
	if !is || part.Alias() == "" {
		return
	}
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	a := &l.session.mu.forceListening
	if slices.Contains(a.channelEnds, part.Alias()) {
		return
	}
	a.channelEnds = append(a.channelEnds, part.Alias())
	if a.listening && !a.scheduled {
		l.scheduleLocked(listenAfter)
	}
}

// ListenForRecalls lets the session listen on its own channel from now on, until it was idle for a while. The caller is
// counted in.
func (l *forceListener) ListenForRecalls() {
	if l.recallsSince.Load() != nil {
		return
	}
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if a := &l.session.mu.forceListening; !a.listening && !a.wanted && !a.never {
		a.wanted = true
		l.scheduleLocked(0)
	}
}

// ReceivesRecalls reports whether recalls have arrived without a gap since before sent, as far as is known now.
func (l *forceListener) ReceivesRecalls(sent timers.Instant) bool {
	since := l.recallsSince.Load()
	return since != nil && since.Mono() < sent.Mono()
}

// busyLocked records that the session has a hold to listen for.
func (l *forceListener) busyLocked() {
	if a := &l.session.mu.forceListening; !a.listening && !a.scheduled && !a.never {
		l.scheduleLocked(listenAfter)
	}
}

// idleLocked records that the session has no hold to listen for.
func (l *forceListener) idleLocked() {
	a := &l.session.mu.forceListening
	a.idles++
	if a.listening && !a.scheduled {
		l.scheduleLocked(listenIdle)
	}
}

func (l *forceListener) scheduleLocked(in time.Duration) {
	a := &l.session.mu.forceListening
	a.scheduled, a.scheduledIdles = true, a.idles
	l.session.Timers.Schedule(&l.entry, in)
}

// Fire implements timers.Firer: the session may have been busy, or idle, for long enough. It is run
// by one goroutine at a time.
func (l *forceListener) Fire() {
	s := l.session
	s.mu.Lock()
	a := &s.mu.forceListening
	a.scheduled = false
	busy, steady := s.mu.busy > 0 || a.wanted, a.idles == a.scheduledIdles || a.wanted
	a.wanted = false
	turns := busy != a.listening
	switch {
	case turns && busy && !s.Runner.IsConnected(): // there is no hold, and no server to subscribe at
		l.scheduleLocked(listenIdle)
	case turns && !steady && busy:
		l.scheduleLocked(listenAfter)
	case turns && !steady:
		l.scheduleLocked(listenIdle)
	case turns:
		a.listening, a.own = busy, nil
		l.recallsSince.Store(nil)
	}
	if a.listening && s.mu.busy == 0 && !a.scheduled {
		l.scheduleLocked(listenIdle)
	}
	listening, ends := a.listening, a.channelEnds
	s.mu.Unlock()
	if !listening {
		for _, c := range l.channels {
			c.Close()
		}
		l.channels = nil
		return
	}
	for _, end := range ends[len(l.channels):] {
		c := &forceChannel{session: s}
		c.unconfirmed.Store(true)
		if len(l.channels) == 0 {
			s.mu.Lock()
			a.own = c
			s.mu.Unlock()
		}
		c.Open(s.Dispatch, proto.Session(s.Settings.Prefix, end), notify.PlainChannel, c)
		l.channels = append(l.channels, c)
	}
}

// OnMessage implements notify.Handler: a message is a recall, or the key of a hold that was ended by force. An empty message
// names no key.
func (c *forceChannel) OnMessage(message string) {
	attempt, isRecall := strings.CutPrefix(message, recallPrefix)
	switch {
	case isRecall && len(message) == recallSize:
		for _, r := range registriesOf[RecallRegistry](&c.session.registries) {
			r.Recall(attempt)
		}
	case message != "":
		c.session.Recheck(message)
	}
}

// OnSubscribed implements notify.Handler.
func (c *forceChannel) OnSubscribed() {
	c.noteSubscription()
	if c.unconfirmed.Swap(false) {
		c.session.Recheck("")
		return
	}
	for _, r := range registriesOf[RecallRegistry](&c.session.registries) {
		r.Resubscribed()
	}
}

// OnUnsubscribed implements notify.Handler. Renewals find out which holds were ended by force meanwhile. A hold that is kept
// would make others wait for that long, so all of them are recalled.
func (c *forceChannel) OnUnsubscribed() {
	if !c.noteSubscription() {
		return
	}
	for _, r := range registriesOf[RecallRegistry](&c.session.registries) {
		r.RecallAll()
	}
}

// noteSubscription records since when recalls arrive, if c is the channel on which they come. It reports whether they did before.
// OnSubscribed and OnUnsubscribed are called by the readers of two connections, in any order. So both record what is so by now:
// the call that comes last for a change finds that.
func (c *forceChannel) noteSubscription() (arrived bool) {
	c.noting.Lock()
	defer c.noting.Unlock()
	var since *timers.Instant
	if !c.IsUnsubscribed() {
		now := timers.Now()
		since = &now
	}
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.forceListening.own == c && s.Forces.recallsSince.Swap(since) != nil
}

// recallPrefix begins a message that is a recall; the id of the attempt follows. No key of the library's own layout is
// like that, and in a layout of others such a key costs a hint.
const recallPrefix, recallSize = "recall:", len("recall:") + proto.HoldSize - proto.SessionSize

// Recheck asks the server whether the session's hold of key, if it has one, is there still; or all holds if key is "".
func (s *Session) Recheck(key string) {
	for _, h := range s.registries.localHolds(key, true) {
		h.Recheck()
	}
}

// describedHold is a hold that a holder key names.
type describedHold struct {
	proto.HolderInfo

	kind, hold string
}

// Holder returns the holder of the lock of key, of any kind, or ErrNotHeld. It is one round trip.
func (s *Session) Holder(ctx context.Context, l *proto.Layout, key string) (proto.HolderInfo, error) {
	h, err := describe(ctx, s.Runner, l, key)
	return h.HolderInfo, err
}

// Hold is Holder in the library's own layout. It also returns the hold's id.
func (s *Session) Hold(ctx context.Context, key string) (proto.HolderInfo, string, error) {
	h, err := describe(ctx, s.Runner, proto.Native(), key)
	return h.HolderInfo, h.hold, err
}

func describe(ctx context.Context, r *wire.Runner, l *proto.Layout, key string) (describedHold, error) {
	reply, err := r.Run(ctx, l.DescribeCall(key))
	if err != nil {
		return describedHold{}, err
	}
	var h describedHold
	h.HolderInfo, h.hold, h.kind, err = l.ReadHold(reply)
	return h, err
}

// ForceRequest describes how a kind of lock is taken from its holder.
type ForceRequest struct {
	Layout          *proto.Layout
	Key             string
	CompatibleKinds string // the letters of the kinds whose holds may be ended
	// Call makes the call that takes the lock from hold, and from no other, and publishes that to the hold's
	// session on channel. It returns 0 if the hold had gone before, else 1.
	Call func(hold, channel string) wire.Call
}

// maxForces bounds how often Force begins again. A lock whose holder changes so often between two round trips
// is not stuck.
const maxForces = 10

// Force takes a lock from its holder: it asks for the hold, and ends that hold and no other. If the holder
// has changed meanwhile it begins again, unless the call is meant for certain holds; see WithForceTargets. If the
// reply is lost it checks whether the hold is gone.
func (s *Session) Force(ctx context.Context, f ForceRequest) error {
	var sent string // the hold whose release was sent, without a reply
	var lost error
	s.HandshakeInCluster(ctx, f.Key)
	for range maxForces {
		h, err := describe(ctx, s.Runner, f.Layout, f.Key)
		switch {
		case sent != "" && (errors.Is(err, errs.ErrNotHeld) || err == nil && h.hold != sent):
			return nil // gone, by that or by itself
		case err != nil:
			return errs.Join(err, lost)
		case !strings.Contains(f.CompatibleKinds, h.kind):
			return proto.WrongKind(h.kind)
		case !IsForceTarget(ctx, proto.HoldID(h.hold)):
			return ErrOtherHold
		}
		reply, err := s.Runner.Run(ctx, f.Call(h.hold, proto.Session(s.Settings.Prefix, h.Session)))
		switch {
		case err != nil && (wire.Judge(err) != wire.Unknown || ctx.Err() != nil):
			return err
		case err != nil:
			sent, lost = h.hold, err
			continue
		}
		if h.Session == s.id {
			s.Recheck(f.Key) // as the message would do, and also if no session listens
		}
		if reply.Code() == wire.Done {
			return nil
		}
		sent, lost = "", nil
	}
	if lost != nil {
		return lost
	}
	return fmt.Errorf("%w: it changed hands %d times while it was to be taken", errs.ErrHeld, maxForces)
}

type forceTargetsKey struct{}

// WithForceTargets returns a context for calls that end holds by force: they end the holds with these ids, and no others. The ids
// travel in the context, as the right to enter does, so that ForceUnlock of every kind needs no second form.
func WithForceTargets(ctx context.Context, ids []string) context.Context {
	return context.WithValue(ctx, forceTargetsKey{}, ids)
}

// IsForceTarget reports whether a call that ends holds by force is meant for the hold with this id.
func IsForceTarget(ctx context.Context, id string) bool {
	ids, limited := ctx.Value(forceTargetsKey{}).([]string)
	return !limited || slices.Contains(ids, id)
}

// FilterForceTargets returns the holds that the call is meant for. If there are only others it returns an error.
func FilterForceTargets[H any](ctx context.Context, holds []H, hold func(H) string) ([]H, error) {
	targets := slices.DeleteFunc(slices.Clone(holds), func(h H) bool { return !IsForceTarget(ctx, proto.HoldID(hold(h))) })
	if len(targets) == 0 && len(holds) > 0 {
		return nil, ErrOtherHold
	}
	return targets, nil
}

// ErrOtherHold is the error of a call that is meant for a hold which has ended, if another one holds the lock.
var ErrOtherHold = fmt.Errorf("%w: another hold than the one that was meant", errs.ErrHeld)
