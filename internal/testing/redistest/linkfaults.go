// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// request forwards a request, or does what the request's fault says. It runs in the reader of
// requests, so no later request is read before it returns.
func (l *link) request(words []string, raw []byte) {
	s := l.proxy.counter.request(words)
	m := packet{data: raw, due: l.arrival()}
	switch s.fault.kind() {
	case CutBeforeRequest:
		l.requestsMuted.Store(true)
		m.data, m.cut, m.fault = nil, true, s.fault
		l.send(l.requests, m) // behind earlier requests
		return
	case SwallowRequest:
		l.requestsMuted.Store(true)
		s.fault.finish()
		return
	case HalfOpen:
		l.silence()
		s.fault.finish()
		return
	case CutAfterRequest, CutAfterReply:
		l.requestsMuted.Store(true)
	case DelayRequest:
		m.due = m.due.Add(s.fault.fault.Delay)
		s.fault.finish()
	case DelayReply, SwallowReply, noFault:
	}
	l.pending.add(words, s)
	l.send(l.requests, m)
}

// reply forwards what the server has sent, or does what the fault of its request says. It
// runs in the reader of replies.
func (l *link) reply(f frame) {
	m := packet{data: f.raw, due: l.arrival()}
	c, s := l.pending.match(f)
	if c == messageFrame && l.proxy.dropPushes.Load() {
		tally.Fault("message lost")
		return
	}
	l.proxy.counter.reply(s)
	switch s.fault.kind() {
	case CutAfterRequest:
		m.data, m.cut, m.fault = nil, true, s.fault
	case CutAfterReply:
		m.cut, m.fault = true, s.fault
	case SwallowReply:
		l.repliesMuted.Store(true)
		s.fault.finish()
		return
	case DelayReply:
		m.due = m.due.Add(s.fault.fault.Delay)
		s.fault.finish()
	case CutBeforeRequest, DelayRequest, SwallowRequest, HalfOpen, noFault: // happened before
	}
	l.send(l.replies, m)
}

// arrival is when something read now arrives at the other side.
func (l *link) arrival() time.Time {
	return time.Now().Add(time.Duration(l.proxy.latency.Load()))
}
