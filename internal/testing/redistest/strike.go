// SPDX-License-Identifier: Apache-2.0

package redistest

import "time"

// request forwards a request, or does what its fault says. It runs in the reader of
// requests, so nothing that comes after it is seen before it is done.
func (l *link) request(words []string, raw []byte) {
	s := l.proxy.steps.request(words)
	m := parcel{data: raw, due: l.arrival()}
	switch s.fault.kind() {
	case CutBeforeRequest:
		l.upMuted.Store(true)
		m.data, m.cut, m.fault = nil, true, s.fault
		l.send(l.up, m) // behind earlier requests
		return
	case SwallowRequest:
		l.upMuted.Store(true)
		s.fault.fire()
		return
	case HalfOpen:
		l.silence()
		s.fault.fire()
		return
	case CutAfterRequest, CutAfterReply:
		l.upMuted.Store(true)
	case DelayRequest:
		m.due = m.due.Add(s.fault.fault.Delay)
		s.fault.fire()
	case DelayReply, SwallowReply, none:
	}
	l.pending.add(words, s)
	l.send(l.up, m)
}

// reply forwards what the server has sent, or does what the fault of its request says. It
// runs in the reader of replies.
func (l *link) reply(f frame) {
	m := parcel{data: f.raw, due: l.arrival()}
	c, s := l.pending.match(f)
	if c == classMessage && l.proxy.dropPushes.Load() {
		l.proxy.dropped.Add(1)
		return
	}
	l.proxy.steps.reply(s)
	switch s.fault.kind() {
	case CutAfterRequest:
		m.data, m.cut, m.fault = nil, true, s.fault
	case CutAfterReply:
		m.cut, m.fault = true, s.fault
	case SwallowReply:
		l.downMuted.Store(true)
		s.fault.fire()
		return
	case DelayReply:
		m.due = m.due.Add(s.fault.fault.Delay)
		s.fault.fire()
	case CutBeforeRequest, DelayRequest, SwallowRequest, HalfOpen, none: // struck before
	}
	l.send(l.down, m)
}

// arrival is when something read now arrives at the other side.
func (l *link) arrival() time.Time {
	return time.Now().Add(time.Duration(l.proxy.latency.Load()))
}
