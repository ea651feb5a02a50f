// SPDX-License-Identifier: Apache-2.0

package rwlock

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// shareFor is for how long readers enter beside each other before the server is asked whether a writer waits.
const shareFor = 20 * time.Millisecond

// room is where the readers of one session meet: they share a hold, and where there is none one of them, the leader,
// gets one for all. See the package doc for its states.
type room struct {
	realm *realm
	key   roomKey
	lock  acquire.Lock // of the shared holds
	users int          // callers and holds; guarded by the lock of the realm

	mu struct {
		sync.Mutex
		open      bool       // readers may enter beside lease
		lease     hold.Lease // of the newest shared hold
		until     clock.Instant
		led       bool // somebody leads: nobody else asks the server
		candidate *acquire.Candidate
		waiting   []*reader
	}
}

// reader is one who waits for what the leader gets.
type reader struct {
	news chan outcome // room for one; it is sent once, by whoever takes the reader off the list
}

// outcome is what came of waiting: a lease, or why there is none, or the lead.
type outcome struct {
	lease hold.Lease
	err   error
	leads bool
}

// take returns a lease of a reader who asks as l does, and waits for it.
func (m *room) take(ctx context.Context, l *acquire.Lock) (hold.Lease, error) {
	if lease, ok := m.join(); ok {
		return lease, nil
	}
	q := l.Kind.Queues.Use(l.Keys.Holder)
	defer l.Kind.Queues.Done(q)
	if err := q.Count(1, l); err != nil {
		return hold.Lease{}, err
	}
	defer q.Uncount(1)
	lease, r := m.enter()
	if r == nil {
		return lease, nil
	}
	select {
	case got := <-r.news:
		return m.got(ctx, got)
	case <-ctx.Done():
	}
	if err, left := m.leave(ctx, r); left {
		return hold.Lease{}, err
	}
	// In the same instant: what it was told is its own.
	return m.got(ctx, <-r.news)
}

func (m *room) got(ctx context.Context, got outcome) (hold.Lease, error) {
	if got.leads {
		return m.lead(ctx)
	}
	return got.lease, got.err
}

// enter returns a lease beside others, or a reader who waits; the lead, where nobody has it, is told as news.
func (m *room) enter() (hold.Lease, *reader) {
	now := clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if lease, ok := m.joinLocked(now); ok {
		return lease, nil
	}
	r := &reader{news: make(chan outcome, 1)}
	if !m.mu.led {
		m.mu.led = true
		r.news <- outcome{leads: true}
	} else if err := m.lock.Base.Session.Ready(); err != nil {
		r.news <- outcome{err: err} // refuse finds r among those who wait, or r finds it said here
	} else {
		m.mu.waiting = append(m.mu.waiting, r)
	}
	return hold.Lease{}, r
}

// refuse sends everybody away who waits for the leader. Who leads finds out by itself.
func (m *room) refuse(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.mu.waiting {
		r.news <- outcome{err: err}
	}
	m.mu.waiting = nil
}

// join returns a lease beside others, if the door is open.
func (m *room) join() (hold.Lease, bool) {
	now := clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joinLocked(now)
}

// joinLocked enters beside others, where the door was open a moment ago.
func (m *room) joinLocked(now clock.Instant) (hold.Lease, bool) {
	if !m.mu.open || now.Mono() >= m.mu.until.Mono() {
		return hold.Lease{}, false
	}
	lease, ok := m.mu.lease.Join()
	m.mu.open = ok // the hold is over, or being given back, where not
	return lease, ok
}

// leave takes r off the list, and returns the error of its wait, unless it was told something already.
func (m *room) leave(ctx context.Context, r *reader) (err error, left bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, other := range m.mu.waiting {
		if other == r {
			m.mu.waiting = append(m.mu.waiting[:i], m.mu.waiting[i+1:]...)
			if m.mu.candidate != nil {
				return m.mu.candidate.Ended(ctx), true
			}
			return errs.Ended(ctx), true
		}
	}
	return nil, false
}

// lead gets a lease for the caller and for all who wait, or leaves the lead to one of them.
func (m *room) lead(ctx context.Context) (hold.Lease, error) {
	if lease, ok := m.ask(ctx); ok {
		return lease, nil
	}
	c, err := m.stand()
	if err != nil {
		m.passLead()
		return hold.Lease{}, err
	}
	err = c.Wait(ctx)
	if err != nil && ctx.Err() != nil && m.passPlace() {
		return hold.Lease{}, err // another waits on in that place
	}
	m.realm.stays(m)
	lease, err := c.Begin(ctx, err)
	if err != nil {
		m.realm.done(m.key, m)
		m.passLead()
		return hold.Lease{}, err
	}
	m.open(lease, clock.Now())
	return lease, nil
}

// ask asks whether readers may go on sharing the hold that there is, and returns a lease of it.
func (m *room) ask(ctx context.Context) (hold.Lease, bool) {
	m.mu.Lock()
	shared, isOpen := m.mu.lease, m.mu.open
	m.mu.Unlock()
	if !isOpen {
		return hold.Lease{}, false
	}
	lease, ok := shared.Join() // so that it stays while it is asked about
	if !ok {
		return hold.Lease{}, false
	}
	term, _ := lease.Of(&m.realm.readers, m.key.holder)
	sent := clock.Now()
	reply, err := m.lock.Base.Session.Runner.Run(ctx, wire.Call{
		Script: m.lock.Base.Layout.RWLock.Door,
		Keys:   m.lock.Keys.All,
		Args:   []string{term.Terms().Hold},
	})
	if err == nil && reply.Code() == wire.Done {
		m.open(lease, sent)
		return lease, true
	}
	m.close()
	_ = lease.Unlock() // beside others, or the last one: then it is given back
	return hold.Lease{}, false
}

// open lets in all who wait beside lease, and for a while those who come. The caller leads no more.
func (m *room) open(lease hold.Lease, since clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.open, m.mu.lease, m.mu.until = true, lease, since.Add(shareFor)
	m.mu.led, m.mu.candidate = false, nil
	for i, r := range m.mu.waiting {
		beside, ok := lease.Join()
		if !ok {
			m.mu.open = false
			m.mu.waiting = m.mu.waiting[i:]
			m.passLeadLocked()
			return
		}
		r.news <- outcome{lease: beside}
	}
	m.mu.waiting = nil
}

// close lets nobody in beside the hold that there is.
func (m *room) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.open, m.mu.lease = false, hold.Lease{}
}

// stand returns who stands in line for the room.
func (m *room) stand() (*acquire.Candidate, error) {
	m.mu.Lock()
	c := m.mu.candidate
	m.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := m.lock.Stand()
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.mu.candidate = c
	}
	return c, err
}

// passLead leaves the lead to the first who waits, and the place in line behind.
func (m *room) passLead() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.candidate = nil
	m.passLeadLocked()
}

// passPlace leaves lead and place to the first who waits, if anybody does.
func (m *room) passPlace() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting) == 0 {
		return false
	}
	m.passLeadLocked()
	return true
}

func (m *room) passLeadLocked() {
	if m.mu.led = len(m.mu.waiting) > 0; m.mu.led {
		m.mu.waiting[0].news <- outcome{leads: true}
		m.mu.waiting = m.mu.waiting[1:]
	}
}

// try returns a reader's lease if there is one at once.
func (m *room) try(ctx context.Context) (hold.Lease, error) {
	lease, ok, leads := m.enterOrLead()
	switch {
	case ok:
		return lease, nil
	case !leads:
		return m.tryAlone(ctx) // who leads may be about to enter: that somebody waits is for the line to say
	}
	if lease, ok = m.ask(ctx); ok {
		return lease, nil
	}
	lease, err := m.tryAlone(ctx)
	if err != nil {
		m.passLead()
		return hold.Lease{}, err
	}
	m.open(lease, clock.Now())
	return lease, nil
}

// enterOrLead returns a lease beside others, or whether the caller leads, who waits for nobody.
func (m *room) enterOrLead() (lease hold.Lease, ok, leads bool) {
	now := clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if lease, ok = m.joinLocked(now); !ok && !m.mu.led {
		m.mu.led, leads = true, true
	}
	return lease, ok, leads
}

// tryAlone tries for a hold that nobody shares yet.
func (m *room) tryAlone(ctx context.Context) (hold.Lease, error) {
	m.realm.stays(m)
	lease, err := m.lock.Try(ctx)
	if err != nil {
		m.realm.done(m.key, m)
		return hold.Lease{}, acquire.CutShort(ctx, err)
	}
	return lease, nil
}
