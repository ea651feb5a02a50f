// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// pastTickets has the last attempts that had a ticket, and of which the server has nothing any more. A failover that loses the end of
// one brings back its ticket, which the heartbeats of the session keep alive. An attempt that is not in it may be that of a copy of this
// process, which has the same session id.
type pastTickets struct {
	all  []pastTicket // at most maxPast
	next int          // the index of the oldest, which the next one replaces, if there are maxPast
}

// pastTicket is what is needed to leave once more.
type pastTicket struct {
	keys    *proto.Set
	text    string // that of the attempt
	request *Request
}

// maxPast is how many attempts are remembered: more than a session ends between two states of a server and its replica.
const maxPast = 1024

func (p *pastTickets) add(a *Attempt) {
	past := pastTicket{a.q.keys, a.text, a.request}
	if len(p.all) < maxPast {
		p.all = append(p.all, past)
		return
	}
	p.all[p.next] = past
	p.next = (p.next + 1) % maxPast
}

// leaveAgainLocked leaves for an attempt that is over, because the server has a ticket or a hold of it again. ticket begins with its id
// within the session. If no such attempt is remembered, leaveAgainLocked does nothing.
func (r *Queues) leaveAgainLocked(ticket string) {
	for _, past := range r.mu.past.all {
		if strings.HasPrefix(ticket, attemptIn(past.text)) {
			a := &Attempt{q: &Queue{registry: r, keys: past.keys}, text: past.text, request: past.request, state: over}
			a.leftTicketLocked()
			leaveExchange{a}.repeatLeave()
			return
		}
	}
}
