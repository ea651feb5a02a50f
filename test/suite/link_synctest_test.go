// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// link is one connection of a wire. Its fields are guarded by the lock of the wire, but for the connections.
type link struct {
	w                *Wire
	number           int // of the server
	client, server   net.Conn
	muteUp, muteDown bool    // nothing passes any more
	resp3            bool    // messages and confirmations of subscriptions are pushes
	subscribed       bool    // the connection receives messages; without RESP3 it replies to no other requests
	pending          []asked // the requests whose replies are awaited
}

// asked is a request whose reply is awaited.
type asked struct {
	fault    Fault
	isScript bool
}

func (l *link) start() {
	up, down := newDelayLine(l.w, l.server, l.cut), newDelayLine(l.w, l.client, l.cut)
	go func() {
		l.forwardRequests(up)
		up.end()
	}()
	go func() {
		l.forwardReplies(down)
		down.end()
	}()
}

func (l *link) isSilentLocked() bool { return l.w.mu.silent || l.w.mu.away == l.number+1 }

func (l *link) cut() { l.w.locked(l.closeLocked) }

func (l *link) closeLocked() {
	_, _ = l.client.Close(), l.server.Close()
	delete(l.w.mu.links, l)
}

// forwardRequests forwards what the client sends.
func (l *link) forwardRequests(up *delayLine) {
	for in := bufio.NewReader(l.client); ; {
		raw, words, err := readFrame(in)
		if err != nil {
			return
		}
		name := locktest.CommandName(words)
		f, onCount := l.count(name, words)
		if onCount != nil {
			onCount(name)
		}
		if f == LoseRequest {
			l.cut()
			return
		}
		var muted bool
		l.w.locked(func() {
			subscribes := strings.HasSuffix(name, "SUBSCRIBE")
			l.resp3 = l.resp3 || name == "HELLO" && len(words) > 1 && words[1] == "3"
			l.subscribed = l.subscribed || subscribes
			l.muteUp = l.muteUp || f == HideRequest
			muted = l.muteUp
			if muted || subscribes || l.subscribed && !l.resp3 {
				return
			}
			l.pending = append(l.pending, asked{f, isScript(name, words)})
			if f == Twice {
				l.pending, raw = append(l.pending, asked{fault: dropped}), slices.Concat(raw, raw)
			}
		})
		switch {
		case muted:
		case f == LateRequest:
			up.send(raw, late)
		default:
			up.send(raw, 0)
		}
	}
}

// forwardReplies forwards what the server sends.
func (l *link) forwardReplies(down *delayLine) {
	for in := bufio.NewReader(l.server); ; {
		raw, words, err := readFrame(in)
		if err != nil {
			return
		}
		isMessage := len(words) > 0 && (words[0] == "message" || words[0] == "smessage")
		f := None
		var muted, loses bool
		l.w.locked(func() {
			if raw[0] != '>' && len(l.pending) > 0 {
				if l.pending[0].isScript && raw[0] != '-' {
					l.w.mu.executed++
				}
				f, l.pending = l.pending[0].fault, l.pending[1:]
			}
			l.muteDown = l.muteDown || l.isSilentLocked() || f == HideReply
			muted, loses = l.muteDown, l.w.mu.loses
		})
		switch {
		case isMessage && loses:
			tally.Fault("message lost")
		case muted, f == dropped:
		case f == LoseReply:
			l.cut()
		case f == LateReply:
			down.send(raw, late)
		case f == CutAfter:
			down.send(raw, 0)
			down.end()
		default:
			down.send(raw, 0)
		}
	}
}

// delayLine delays what it forwards, in order. Its end closes the link.
type delayLine struct {
	w       *Wire
	changed chan struct{}

	mu struct {
		sync.Mutex
		packets []packet
		ended   bool
	}
}

// packet is bytes, and when they arrive.
type packet struct {
	raw []byte
	due time.Time
}

func newDelayLine(w *Wire, to io.Writer, ended func()) *delayLine {
	d := &delayLine{w: w, changed: make(chan struct{}, 1)}
	go func() {
		defer ended()
		for {
			d.mu.Lock()
			packets, over := d.mu.packets, d.mu.ended
			d.mu.packets = nil
			d.mu.Unlock()
			for _, p := range packets {
				time.Sleep(time.Until(p.due))
				if _, err := to.Write(p.raw); err != nil {
					return
				}
			}
			if len(packets) == 0 {
				if over {
					return
				}
				<-d.changed
			}
		}
	}()
	return d
}

func (d *delayLine) send(raw []byte, delay time.Duration) {
	d.w.locked(func() { delay += d.w.mu.latency })
	d.change(func() { d.mu.packets = append(d.mu.packets, packet{raw, time.Now().Add(delay)}) })
}

func (d *delayLine) end() { d.change(func() { d.mu.ended = true }) }

func (d *delayLine) change(do func()) {
	d.mu.Lock()
	do()
	d.mu.Unlock()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// readFrame reads a request or a reply, and returns its bytes. If it is a list, it returns the texts in it, too.
func readFrame(in *bufio.Reader) (raw []byte, words []string, err error) {
	head, err := in.ReadBytes('\n')
	if err != nil {
		return nil, nil, err
	}
	raw = head
	n, _ := strconv.Atoi(string(bytes.TrimSpace(head[1:])))
	switch head[0] {
	case '$', '=', '!':
		if n < 0 {
			return raw, nil, nil
		}
		body := make([]byte, n+2)
		_, err = io.ReadFull(in, body)
		return append(raw, body...), []string{string(body[:n])}, err
	case '*', '~', '>', '%':
		if head[0] == '%' {
			n *= 2
		}
		for range n {
			part, texts, err := readFrame(in)
			if err != nil {
				return nil, nil, err
			}
			raw, words = append(raw, part...), append(words, texts...)
		}
		return raw, words, nil
	}
	if !strings.ContainsRune("+-:_,#(", rune(head[0])) {
		return nil, nil, fmt.Errorf("%q is no RESP", head)
	}
	return raw, words, nil
}
