// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// queueSize is how many messages may be under way in one direction before its reader waits
// for its writer, as a full socket buffer would make the sender wait.
const queueSize = 1024

// link is a connection of a client, with the connection to the server that was made for it.
//
// Each direction has a reader, which decides what happens to a message, and a writer, which forwards it
// when it is due. The reader closes the queue when its connection ends; the writer then forwards the end.
// So the requests of a client that has closed its connection are still executed, delayed ones included. The
// link is over when the server has closed its connection, or the link is severed, and the client has closed
// its own.
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
		l.proxy.counter.note(err.Error())
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
// is read, and dropped, until the client closes it. If both halves were closed, the kernel would send a
// reset for what the client still sends. The client would see the reset instead of the end, on some systems
// even instead of replies that it has not read yet.
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
