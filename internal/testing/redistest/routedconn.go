// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"net"
	"strings"
	"sync"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// routedConn is one connection of a client, and one to each shard. Requests are forwarded as they come, and their replies in
// the order of the requests.
type routedConn struct {
	router   *Router
	client   net.Conn
	shards   []net.Conn
	replies  []chan frame       // the replies of each shard; closed when its connection ends
	expected chan routedRequest // the requests without a reply, in their order
	once     sync.Once
	ended    chan struct{}
	writing  sync.Mutex // serializes writes to the client
}

// routedRequest is a request, and where its reply comes from.
type routedRequest struct {
	words       []string
	confirms    int    // the pushes that confirm it, in place of a reply; 0 for a reply
	first, last int    // the shards that have it: from first to before last
	refusal     string // the error of the router itself, which no shard has it for; or ""
	hangup      bool   // the router closes the connection instead
}

func (r *Router) connect(client net.Conn) (*routedConn, error) {
	c := &routedConn{router: r, client: client, expected: make(chan routedRequest, 1000), ended: make(chan struct{})}
	for _, dial := range r.shards {
		shard, err := dial()
		if err != nil {
			c.close()
			return nil, err
		}
		c.shards = append(c.shards, shard)
		c.replies = append(c.replies, make(chan frame))
	}
	for i := range c.shards {
		r.running.Go(func() { c.read(i) })
	}
	return c, nil
}

func (c *routedConn) close() {
	c.once.Do(func() {
		close(c.ended)
		_ = c.client.Close()
		for _, shard := range c.shards {
			_ = shard.Close()
		}
	})
}

// read is the reader of a shard. Messages go to the client at once. A confirmation of a subscription is a push, too, but clients
// take it for the reply to their request.
func (c *routedConn) read(i int) {
	defer c.close()
	defer close(c.replies[i])
	from := bufio.NewReader(c.shards[i])
	for {
		f, err := readFrame(from)
		if err != nil {
			return
		}
		if f.kind == '>' && !isConfirmation(f) {
			c.write(f.raw)
			continue
		}
		select {
		case c.replies[i] <- f:
		case <-c.ended:
			return
		}
	}
}

func isConfirmation(f frame) bool {
	return len(f.elems) > 0 && isSubscription(f.elems[0].text)
}

func isSubscription(command string) bool {
	return strings.HasSuffix(strings.ToUpper(command), "SUBSCRIBE")
}

func (c *routedConn) write(raw []byte) {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.client.Write(raw) // its reader sees that it has gone
}

func (c *routedConn) serve() {
	defer func() {
		c.close()
		c.router.mu.Lock()
		defer c.router.mu.Unlock()
		delete(c.router.mu.open, c)
	}()
	c.router.running.Go(c.reply)
	from := bufio.NewReader(c.client)
	for {
		words, raw, err := readRequest(from)
		if err != nil || len(words) == 0 {
			return
		}
		request := c.route(words)
		if request.hangup {
			c.expect(request)
			<-c.ended
			return
		}
		for _, shard := range c.shards[request.first:request.last] {
			if _, err := shard.Write(raw); err != nil {
				return
			}
		}
		if isSubscription(words[0]) {
			request.confirms = max(len(words)-1, 1)
		}
		c.expect(request)
	}
}

func (c *routedConn) expect(request routedRequest) {
	select {
	case c.expected <- request:
	case <-c.ended:
	}
}

// route returns what becomes of a request.
func (c *routedConn) route(words []string) (request routedRequest) {
	routing := *c.router.routing.Load()
	keys := keysOf(strings.ToUpper(words[0]), words)
	request.words = words
	for _, key := range keys {
		if wire.Slot(key) != wire.Slot(keys[0]) {
			c.router.several.Add(1)
			if request.hangup, request.refusal = routing.Hangup, routing.Refusal; request.hangup || request.refusal != "" {
				return request
			}
			break
		}
	}
	request.last = len(c.shards)
	if len(keys) > 0 {
		if !routing.Alone {
			request.first = int(wire.Slot(keys[0])) * len(c.shards) / wire.Slots
		}
		request.last = request.first + 1
	}
	return request
}

// reply sends the replies to the client.
func (c *routedConn) reply() {
	defer c.close()
	for {
		select {
		case request := <-c.expected:
			reply, isReply := c.replyTo(request)
			if !isReply {
				return
			}
			c.write(reply)
		case <-c.ended:
			return
		}
	}
}

// replyTo waits for the reply to a request. It returns false if the connection ends instead.
func (c *routedConn) replyTo(request routedRequest) (reply []byte, isReply bool) {
	if request.hangup {
		return nil, false
	}
	if request.confirms > 0 && request.refusal == "" {
		for range request.confirms {
			f, open := <-c.replies[request.first]
			if !open {
				return nil, false
			}
			reply = append(reply, f.raw...)
		}
		return reply, true
	}
	for i := request.first; i < request.last; i++ {
		f, open := <-c.replies[i]
		if !open {
			return nil, false
		}
		if i == request.first {
			reply = f.raw
		}
	}
	refusal := request.refusal
	if refusal == "" {
		refusal = (*c.router.injected.Load())(request.words)
	}
	if refusal != "" {
		reply = []byte("-" + refusal + "\r\n")
	}
	return reply, true
}
