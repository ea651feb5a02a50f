// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"strings"
	"time"
)

func (c *conn) countRequestsLocked(b []byte) {
	f := &c.mu.requests
	for len(b) > 0 && !f.unreadable {
		if !f.insideValue() {
			c.mu.sent++
		}
		request := b
		var ended bool
		if b, ended = f.next(b); !ended {
			return
		}
		c.noteRequestLocked(bytes.TrimSpace(f.text), request[:len(request)-len(b)])
	}
}

// noteRequestLocked records what the first word of a request says about the connection.
func (c *conn) noteRequestLocked(word, request []byte) {
	is := func(known string) bool { return len(word) == len(known) && strings.EqualFold(string(word), known) }
	c.mu.greeting.noteRequest(is)
	if !is("PING") {
		c.mu.used = true
	}
	switch {
	case is("EVALSHA"):
	case is("HELLO"):
		c.mu.helloAt = c.mu.sent
		c.mu.replies.keepWhole = c.mu.helloAt == c.mu.received+1 && !c.mu.replies.insideValue()
	case is("SUBSCRIBE"), is("PSUBSCRIBE"), is("SSUBSCRIBE"):
		c.mu.subscribed, c.mu.pinned = true, true
		c.mu.special = append(c.mu.special, specialRequest{number: c.mu.sent, channels: c.mu.requests.size - 1})
	case is("UNSUBSCRIBE"), is("PUNSUBSCRIBE"), is("SUNSUBSCRIBE"):
		c.mu.subscribed, c.mu.pinned = true, true
		c.mu.special = append(c.mu.special, specialRequest{number: c.mu.sent})
		c.mu.sent--
	case is("ROLE"):
		c.mu.special = append(c.mu.special, specialRequest{number: c.mu.sent, channels: -1, least: 1})
	case is("SENTINEL") && bytes.Contains(request, []byte("GET-MASTER-ADDR-BY-NAME")):
		c.mu.special = append(c.mu.special, specialRequest{number: c.mu.sent, channels: -1, least: 2})
	case is("MONITOR"):
		c.mu.subscribed, c.mu.pinned = true, true
	case is("WATCH"), is("MULTI"), is("SELECT") && c.mu.greeting.over: // that of the greeting is sent on the next connection, too
		c.mu.pinned = true
	case is("AUTH") && c.mu.awaitsLogin:
		c.mu.awaitsLogin, c.mu.loginAt = false, c.mu.sent
	case is("AUTH"):
		// Without a function it is the program's own, who is another user from now on: a state that no other connection has.
		c.mu.pinned = c.mu.pinned || c.mu.accepted && c.credentials().function == nil
	case is("PING"):
		// The client asks so before it closes a connection, also one that it never used.
		c.mu.unused = c.mu.unused || c.mu.sent == 1
	}
}

// errNoReply is the reason for which a connection ends whose server does not speak as servers do: another program, or a proxy that
// is mistaken. Nothing that it says can be believed, and the client panics at it.
var errNoReply = errors.New("what the server says is no reply to what it was asked: another program is at the address, or a proxy that is broken")

// specialRequest is a request whose reply the client does not take as it comes. Mostly that is not one value: of SUBSCRIBE and those like
// it, and of UNSUBSCRIBE with the PING that the client sends behind it, and counts as one request with it.
type specialRequest struct {
	number   uint64 // its number among the requests
	channels int64  // the channels that the server confirms; 0 for UNSUBSCRIBE, whose confirmations the client ignores; -1 for others
	least    int64  // how many values of an array the client reads without looking
	refused  bool   // the UNSUBSCRIBE was refused, so that its PING has a reply of its own
}

// countReplyLocked counts the value that has ended if it is a reply, and not a message. It returns false for expected if the client
// would panic at it: more values came than requests were sent, or a confirmation that is not due.
func (c *conn) countReplyLocked() (isReply, expected bool) {
	f := &c.mu.replies
	word, _, _ := bytes.Cut(f.text, lineEnd)
	var due *specialRequest
	channels := int64(-1) // of the request that is due
	if len(c.mu.special) > 0 && c.mu.special[0].number == c.mu.received+1 {
		due = &c.mu.special[0]
		channels = due.channels
	}
	// In RESP2 a message has the form of a reply.
	isMessage := f.kind == '>' || f.kind == '*' && f.size > 0 && c.mu.subscribed && string(word) != "pong" && c.speaksRESP2Locked()
	isQueued := channels >= 0 && string(word) == "QUEUED" // as inside of MULTI
	isConfirmation := isMessage && bytes.HasSuffix(word, []byte("subscribe"))
	switch {
	case isConfirmation && c.mu.confirmations > 0:
		c.mu.confirmations--
		return false, true
	case isConfirmation && !bytes.HasSuffix(word, []byte("unsubscribe")):
		c.mu.confirmations = max(channels-1, 0)
		isReply, expected = channels > 0, channels > 0
	case isMessage:
		return false, !c.sentinel || c.readEventLocked()
	case channels == 0 && !isPong(f.kind, string(word)):
		expected, due.refused = !due.refused && !isQueued, true
		return false, expected
	default:
		isShort := due != nil && (f.kind == '*' || f.kind == '~') && f.size >= 0 && f.size < due.least
		isReply, expected = true, !isQueued && !isShort
	}
	if due != nil {
		c.mu.special = c.mu.special[1:]
	}
	c.mu.received++
	return isReply, expected && (c.mu.received <= c.mu.sent || c.mu.requests.unreadable)
}

var lineEnd = []byte("\r\n") //nolint:gochecknoglobals // a constant

// errShortEvent is the reason for which a connection to a sentinel ends.
var errShortEvent = errors.New("the event has fewer words than it has to have")

// readEventLocked reports whether a message of a sentinel has as many words as the client reads without looking whether they are there.
func (c *conn) readEventLocked() (isWhole bool) {
	f := &c.mu.replies
	parts := bytes.SplitN(f.text, lineEnd, 3) // the kind, the channel and the event
	if string(parts[0]) != "message" {
		return true
	}
	words := 4
	if len(parts) == 3 && string(parts[1]) == "+switch-master" {
		words = 5
	}
	if len(parts) == 3 && f.size == 3 && f.depth == 1 && bytes.Count(parts[2], []byte(" ")) >= words-1 {
		c.endpoint.connector.eventsAreWhole()
		return true
	}
	c.endpoint.report(FailureEvent, errShortEvent)
	return false
}

// isPong reports whether the client takes a value for the reply to its PING behind an UNSUBSCRIBE.
func isPong(kind byte, words string) bool {
	switch kind {
	case '-':
		return strings.HasPrefix(words, "LOADING") || strings.HasPrefix(words, "BUSY") || strings.Contains(words, "'ping'")
	case '*':
		return words == "pong"
	}
	return words == "PONG"
}

// countRepliesLocked counts the replies that end in b, and returns why the server is not the one that is wanted, or "". It returns
// false if b has what is no reply: it cannot be read, or the client would panic at it.
func (c *conn) countRepliesLocked(b []byte) (found string, areReplies bool) {
	f := &c.mu.replies
	areReplies = true
	for len(b) > 0 {
		isRefusal, value := f.isRefusal(b), b
		isLogin := c.mu.loginAt == c.mu.received+1
		concealed := isLogin && isRefusal && !f.insideValue()
		var ended bool
		b, ended = f.next(b)
		if isRefusal {
			secrets := c.secretsLocked()
			maskSecrets(value[:len(value)-len(b)], secrets)
			maskSecrets(f.text, secrets) // which has what came before, too
		}
		if concealed {
			concealRefusal(value)
		}
		if !ended {
			break
		}
		isReply, expected := c.countReplyLocked()
		areReplies = areReplies && expected
		if isReply {
			switch {
			case isLogin:
				c.loginEndedLocked(f.refusal())
			case f.kind == '-' || f.kind == '!':
				c.mu.greeting.noteRefusal(c.mu.received)
				words := f.refusal()
				areReplies = areReplies && !isBrokenRedirection(words)
				if c.isRejectionLocked(words) {
					found = words
				}
			case f.keepWhole:
				found = c.readHelloLocked(found)
			default:
				c.acceptLocked()
			}
		}
		f.keepWhole = c.mu.helloAt == c.mu.received+1
	}
	if c.mu.leaving != nil {
		found = "" // it is known
	}
	return found, areReplies && !f.unreadable
}

// concealRefusal makes an error a string of the same length: the client ends a connection on which newer credentials are refused, and
// the server lets it be what it was.
func concealRefusal(refusal []byte) {
	refusal[0] = map[byte]byte{'-': '+', '!': '$'}[refusal[0]]
}

// loginEndedLocked reports whether the server accepts newer credentials on an open connection. A program may have them before the
// server does.
func (c *conn) loginEndedLocked(refusal string) {
	c.mu.loginAt = 0
	if refusal == "" {
		c.endpoint.report(FailureLogin, nil)
	} else {
		c.endpoint.report(FailureLogin, &refusedError{refusal})
	}
}

// secretsLocked returns the passwords that were written on the connection.
func (c *conn) secretsLocked() []string {
	requests, _ := c.mu.greeting.parse()
	secrets := passwords(requests)
	if c.mu.given.Password != "" {
		secrets = append(secrets, c.mu.given.Password)
	}
	return secrets
}

// endsInsideRefusal reports whether replies that were just read end inside an error.
func (c *conn) endsInsideRefusal(b []byte) bool {
	if b[len(b)-1] == '\n' {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.mu.replies
	f.text, f.line = nil, bytes.Clone(f.line) // f is a copy, and the copy's own
	inside := false
	for ended := true; ended && len(b) > 0; {
		inside = f.isRefusal(b)
		b, ended = f.next(b)
		inside = inside && !ended
	}
	return inside
}

// acceptLocked records that the server accepts the client.
func (c *conn) acceptLocked() {
	if !c.mu.accepted && !c.mu.unused && !begins(c.mu.refusal, connectRefusals) {
		c.mu.accepted = true
		c.endpoint.recordAccepted()
	}
}

// readHelloLocked reads the reply to HELLO. If a server becomes a replica later, the connection is left: data that a
// program reads there is old, and no refusal says so.
func (c *conn) readHelloLocked(found string) string {
	reply := c.mu.replies.text
	first := !c.mu.accepted
	c.acceptLocked()
	c.describeLocked(reply)
	if !first && isReplica(reply) {
		return "READONLY the server is a replica"
	}
	return found
}

// describeLocked records what the server of the connection says of itself in a reply to HELLO.
func (c *conn) describeLocked(hello []byte) {
	c.endpoint.noteVersion(hello)
	c.mu.clusterMember = bytes.Contains(hello, []byte("mode\r\n$7\r\ncluster"))
	c.mu.clusterPrimary, c.mu.helloRead = c.mu.clusterMember && !isReplica(hello), time.Now()
}

// isReplica reports whether a reply to HELLO is that of a replica.
func isReplica(reply []byte) bool {
	return bytes.Contains(reply, []byte("role\r\n$7\r\nreplica")) || bytes.Contains(reply, []byte("role\r\n$5\r\nslave"))
}

// isRejectionLocked reports whether the connection must be left after a refusal.
func (c *conn) isRejectionLocked(words string) bool {
	if !c.mu.accepted {
		if !c.mu.unused && !begins(c.mu.refusal, connectRefusals) { // else the client asks PING before it gives the connection up
			c.mu.refusal = words
		}
		return false // the client gives it up, or has another way to begin
	}
	now := time.Now()
	if to := movedTo(words); to != "" {
		return c.leavesForRedirectionLocked(to, now)
	}
	switch suspicionOf(words) {
	case wrongServer:
		return true
	case suspectServer:
		if now.Sub(c.mu.lastSuspect) > suspectGap {
			c.mu.suspectSince = now
		}
		c.mu.lastSuspect = now
		return now.Sub(c.mu.suspectSince) >= suspectFor
	case unsuspicious:
	}
	return false
}

// leavesForRedirectionLocked reports whether the connection must be left after a redirection. The client of a cluster follows it,
// unless it leads to this very connection, which the client would follow for ever.
//
// A server that is no member of a cluster, or whose client follows no redirection, can only mean: not here. The address may
// lead elsewhere by now, so the connection is left, but not again and again if that does not help: other calls use the connections.
// If a primary of a cluster says so for a client of one server, connecting anew never helps.
func (c *conn) leavesForRedirectionLocked(to string, now time.Time) bool {
	single := c.endpoint.connector.options.SingleServer
	if c.mu.clusterMember && !single {
		return c.endpoint.isAt(to, addressOf(c.mu.inner))
	}
	if c.mu.clusterPrimary && now.Sub(c.mu.helloRead) < suspectFor {
		c.mu.redirects = true
	}
	if c.mu.clusterPrimary && c.mu.redirects {
		return false
	}
	return c.endpoint.mayLeaveForRedirection(now)
}

// idleLocked reports whether nothing that was sent waits for a reply.
func (c *conn) idleLocked() bool {
	return !c.mu.requests.unreadable && !c.mu.replies.unreadable && !c.mu.requests.insideValue() && c.mu.received >= c.mu.sent
}
