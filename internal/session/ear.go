// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/timers"
)

const (
	// listenAfter is how long a session is busy before it listens on its own channel. A shorter hold is over
	// before an operator forces it, and pays for no subscription.
	listenAfter = 100 * time.Millisecond
	// listenOn is how long it listens on when it is idle. The channel lingers after that.
	listenOn = time.Second
)

// ear listens on the session's own channels for holds of the session that another process ended by force. A
// message is a hint that any client could send: the session asks the server.
//
// The channels end with the id of the session, and with the aliases of its parts.
//
//	        busy for listenAfter
//	Deaf ----------------------> Listening
//	  ^                              |
//	  +--- idle for listenOn --------+
//
// One entry on the wheel serves both changes, and an alias that is new while the session listens. It is scheduled if it
// is not yet: a lock that is acquired and released again and again only reads a flag each time.
type ear struct {
	session  *Session
	entry    timers.Timer
	channels []*earChannel // Fire's own: those of the first names
}

// earChannel is a channel on which an ear listens.
type earChannel struct {
	session  *Session
	listener *dispatch.Listener // the ear's own
	// fresh is set before listening begins and cleared by the first subscription: no message reported holds
	// that were forced between the acquire and that. After a break of the connection the renewals find out.
	fresh atomic.Bool
}

// attention is the state of the session's ear.
type attention struct {
	deaf      bool // always: the session polls
	listening bool
	armed     bool   // the entry is scheduled
	idles     uint64 // how often the session became idle
	since     uint64 // idles when the entry was scheduled
	// names end the channels. Names are appended and never changed, so Fire reads those that it saw without
	// the lock.
	names []string
}

// Aliased is a Part whose holds do not contain the id of the session. What ends one by force knows the alias.
type AliasedRegistry interface {
	Alias() string // "" if they contain the id
}

// nameLocked adds the alias of a part, also if the session listens already.
func (s *Session) nameLocked(p KindRegistry) {
	part, is := p.(AliasedRegistry)
	a := &s.mu.attention
	if !is || part.Alias() == "" || slices.Contains(a.names, part.Alias()) {
		return
	}
	a.names = append(a.names, part.Alias())
	if a.listening && !a.armed {
		s.armLocked(listenAfter)
	}
}

// busyLocked records that the session has a hold to listen for.
func (s *Session) busyLocked() {
	if a := &s.mu.attention; !a.listening && !a.armed && !a.deaf {
		s.armLocked(listenAfter)
	}
}

// idleLocked records that the session has no hold to listen for.
func (s *Session) idleLocked() {
	a := &s.mu.attention
	a.idles++
	if a.listening && !a.armed {
		s.armLocked(listenOn)
	}
}

func (s *Session) armLocked(in time.Duration) {
	a := &s.mu.attention
	a.armed, a.since = true, a.idles
	s.Timers.Schedule(&s.ear.entry, in)
}

// Fire implements timers.Event: the session may have been busy, or idle, for long enough. It is run
// by one goroutine at a time.
func (e *ear) Fire() {
	s := e.session
	s.mu.Lock()
	a := &s.mu.attention
	a.armed = false
	busy, steady := s.mu.busy > 0, a.idles == a.since
	turns := busy != a.listening
	switch {
	case turns && !steady && busy:
		s.armLocked(listenAfter)
	case turns && !steady:
		s.armLocked(listenOn)
	case turns:
		a.listening = busy
	}
	listening, ends := a.listening, a.names
	s.mu.Unlock()
	if !listening {
		for _, c := range e.channels {
			c.listener.Close()
		}
		e.channels = nil
		return
	}
	for _, end := range ends[len(e.channels):] {
		c := &earChannel{session: s}
		c.fresh.Store(true)
		c.listener = s.Dispatch.Listen(names.Session(s.Settings.Prefix, end), dispatch.PlainChannel, c)
		e.channels = append(e.channels, c)
	}
}

// Heard implements dispatch.Hearer: a message says that the hold of a key was ended by force. An empty one names no key.
func (c *earChannel) OnMessage(key string) {
	if key != "" {
		c.session.Recheck(key)
	}
}

// Subscribed implements dispatch.Hearer.
func (c *earChannel) OnSubscribed() {
	if !c.fresh.Swap(false) {
		return
	}
	for _, p := range c.session.registries() {
		p.RecheckAll()
	}
}

// Lost implements dispatch.Hearer. It does nothing: renewals find out what a lost message would
// say.
func (*earChannel) OnUnsubscribed() {}

// Recheck asks the server whether the session's hold of key, if it has one, is there still.
func (s *Session) Recheck(key string) {
	for _, p := range s.registries() {
		p.Recheck(key)
	}
}
