// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"strings"
	"sync"
)

// pendingRequests holds the requests of one connection that have no reply yet. Redis replies in order, so the next
// reply belongs to the oldest request. Only two things that it sends are no replies: RESP3 pushes, and
// published messages, which in RESP2 are arrays like any other.
//
// The reply to a subscription is a confirmation for each channel. Confirmations are pushes in RESP3 and
// arrays in RESP2, but an error is an ordinary reply in both.
type pendingRequests struct {
	mu struct {
		sync.Mutex
		queue []pendingRequest
	}

	// Used by the reader of replies alone.
	channels map[string]map[string]bool // subscribed names by confirming verb
	resp3    bool                       // a confirmation has come as a push
}

// pendingRequest is a request that was forwarded and has no complete reply.
type pendingRequest struct {
	step          countedRequest
	verb          string // the verb of the confirmations that are the reply; empty for an ordinary reply
	confirmations int    // the confirmations to come; 0: one for each channel subscribed to, at least one
}

// frameClass is what a frame of the server is.
type frameClass int

const (
	replyFrame   frameClass = iota + 1 // the reply to a request; confirmations after the first have no step
	messageFrame                       // published
	pushFrame                          // any other push
)

// add is called before the request is forwarded, so its reply cannot come before it.
func (p *pendingRequests) add(words []string, s countedRequest) {
	r := pendingRequest{step: s}
	if len(words) > 0 {
		verb := strings.ToLower(words[0])
		if _, ok := undoes[verb]; ok {
			r.verb, r.confirmations = verb, len(words)-1
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.queue = append(p.mu.queue, r)
}

// undoes maps each subscription verb to the verb whose channels it removes, or to nothing.
//
//nolint:gochecknoglobals // a constant, which Go has no maps for
var undoes = map[string]string{
	"subscribe": "", "psubscribe": "", "ssubscribe": "",
	"unsubscribe": "subscribe", "punsubscribe": "psubscribe", "sunsubscribe": "ssubscribe",
}

// match returns what a frame is, and for a reply the step of its request.
func (p *pendingRequests) match(f frame) (frameClass, countedRequest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	verb := ""
	if (f.kind == '>' || f.kind == '*') && len(f.elems) > 0 {
		verb = f.elems[0].text
	}
	aggregateOnly := f.kind == '*' && !p.resp3 && p.subscribed()
	switch {
	case len(p.mu.queue) > 0 && verb != "" && p.mu.queue[0].verb == verb:
		return p.confirmLocked(f)
	case (f.kind == '>' || aggregateOnly) && isMessage(verb):
		return messageFrame, countedRequest{}
	case f.kind == '>' || len(p.mu.queue) == 0:
		return pushFrame, countedRequest{}
	default:
		return replyFrame, p.popLocked().step
	}
}

// confirmLocked takes a confirmation of the oldest request. The first one stands for its
// reply, the last one removes it.
func (p *pendingRequests) confirmLocked(f frame) (frameClass, countedRequest) {
	head := &p.mu.queue[0]
	first := head.step
	if head.confirmations == 0 {
		head.confirmations = max(1, len(p.channels[undoes[head.verb]]))
	}
	p.resp3 = f.kind == '>'
	p.record(f)
	head.confirmations--
	head.step = countedRequest{}
	if head.confirmations == 0 {
		p.popLocked()
	}
	return replyFrame, first
}

func (p *pendingRequests) popLocked() pendingRequest {
	head := p.mu.queue[0]
	p.mu.queue[0] = pendingRequest{}
	p.mu.queue = p.mu.queue[1:]
	return head
}

// record keeps the channels up to date with a confirmation.
func (p *pendingRequests) record(f frame) {
	if len(f.elems) < 2 {
		return
	}
	verb, channel := f.elems[0].text, f.elems[1].text
	if undone := undoes[verb]; undone != "" {
		delete(p.channels[undone], channel)
		return
	}
	if p.channels == nil {
		p.channels = make(map[string]map[string]bool)
	}
	if p.channels[verb] == nil {
		p.channels[verb] = make(map[string]bool)
	}
	p.channels[verb][channel] = true
}

func (p *pendingRequests) subscribed() bool {
	for _, names := range p.channels {
		if len(names) > 0 {
			return true
		}
	}
	return false
}

func isMessage(verb string) bool {
	return verb == "message" || verb == "pmessage" || verb == "smessage"
}
