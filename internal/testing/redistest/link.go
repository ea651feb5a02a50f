// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// queueSize is how many messages may be under way in one direction before its reader waits
// for its writer, as a full socket buffer would make the sender wait.
const queueSize = 1024

// link is a connection of a client, with the connection to the server that was made for it.
//
// Each direction has a reader, which decides what happens to a message, and a writer, which forwards it
// when it is due. The reader closes the queue when its connection ends; the writer then forwards the end. So the requests of a
// client that has gone are still executed. The link is over when both connections are.
type link struct {
	proxy             *Proxy
	client, server    *net.TCPConn
	requests, replies chan packet // requests, replies
	pending           pendingRequests
	running           atomic.Int32 // goroutines

	// What a reader finds muted it drops, the end of its connection included. The writers
	// drop what they still have only if silent.
	requestsMuted, repliesMuted, silent atomic.Bool

	severed chan struct{} // closed once the server side is closed
	once    sync.Once     // runs sever once
}

// packet is what a writer forwards.
type packet struct {
	data  []byte
	due   time.Time
	cut   bool        // sever the link afterwards
	fault *ArmedFault // the fault that cut completes
}

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	return &link{
		proxy: p, client: client, server: server,
		requests: make(chan packet, queueSize), replies: make(chan packet, queueSize),
		severed: make(chan struct{}),
	}
}

// start starts the goroutines; the last one to end closes what is still open.
func (l *link) start(group *sync.WaitGroup) {
	parts := []func(){l.readRequests, l.writeRequests, l.readReplies, l.writeReplies}
	l.running.Store(int32(len(parts)))
	for _, part := range parts {
		group.Go(func() {
			part()
			if l.running.Add(-1) == 0 {
				l.abort()
				l.proxy.leave(l)
			}
		})
	}
}

func (l *link) readRequests() {
	defer close(l.requests)
	r := bufio.NewReader(l.client)
	for {
		words, raw, err := readRequest(r)
		if err != nil {
			l.ended(err, &l.requestsMuted)
			return
		}
		if !l.requestsMuted.Load() {
			l.request(words, raw)
		}
	}
}

func (l *link) readReplies() {
	defer close(l.replies)
	r := bufio.NewReader(l.server)
	for {
		f, err := readFrame(r)
		if err != nil {
			l.ended(err, &l.repliesMuted)
			return
		}
		if !l.repliesMuted.Load() {
			l.reply(f)
		}
	}
}

// ended keeps the end of a connection from the other side as long as the direction is muted.
func (l *link) ended(err error, muted *atomic.Bool) {
	if errors.Is(err, errProtocol) {
		l.sever()
	}
	if muted.Load() {
		<-l.severed
	}
}

// writeRequests forwards the end of the client's requests, unless the connection is silenced.
func (l *link) writeRequests() {
	l.forward(l.server, l.requests)
	if !l.silent.Load() {
		_ = l.server.CloseWrite() // fails if the server has gone, which its reader sees
	}
}

// writeReplies severs the link once the server has gone, as nothing can be forwarded then.
func (l *link) writeReplies() {
	l.forward(l.client, l.replies)
	l.sever()
}

// forward writes until the queue is closed and empty. Errors are the business of the
// reader of the same connection.
func (l *link) forward(to io.Writer, queue <-chan packet) {
	for m := range queue {
		if !l.wait(m.due) {
			continue
		}
		if m.cut {
			m.fault.begin() // a client that has the last reply, or sees the cut, may ask
		}
		if !l.silent.Load() && len(m.data) > 0 {
			_, _ = to.Write(m.data)
		}
		if m.cut {
			l.sever()
			m.fault.finish()
		}
	}
}

// wait waits until due, and reports false if the link is severed before.
func (l *link) wait(due time.Time) bool {
	if in := time.Until(due); in > 0 {
		t := time.NewTimer(in)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.severed:
		}
	}
	return !l.isSevered()
}

// send queues a packet unless the link is severed.
func (l *link) send(queue chan<- packet, m packet) {
	select {
	case queue <- m:
	case <-l.severed:
	}
}

func (l *link) isSevered() bool {
	select {
	case <-l.severed:
		return true
	default:
		return false
	}
}

// sever closes the server's side, and the half of the client's side that the client reads. The other half
// is read, and dropped, until the client closes it: else the kernel would send a reset for what the client still sends, and the
// client could see that instead of replies.
func (l *link) sever() {
	l.once.Do(func() {
		l.requestsMuted.Store(true)
		close(l.severed)
		_ = l.server.Close() // what is lost by closing is meant to be lost
		_ = l.client.CloseWrite()
	})
}

// abort closes both sides.
func (l *link) abort() {
	l.sever()
	_ = l.client.Close() // see sever
}

// silence makes the link half open.
func (l *link) silence() {
	l.requestsMuted.Store(true)
	l.repliesMuted.Store(true)
	l.silent.Store(true)
}

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
