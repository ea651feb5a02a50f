// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
)

// hostileReplies makes replies of every shape, also those that no server sends.
type hostileReplies struct {
	mu     sync.Mutex
	random *rand.Rand
	ended  bool
}

// texts are what replies and messages consist of: words that scripts return, and what is nearly one of them.
var texts = []string{
	"", "0", "1", "-1", "x", "r", "f", "w", "q", "l", "s", "-", "1795246514376753", "-795246514376753", "9999999999999999", "99999999999999999999",
	strings.Repeat("a", 19), strings.Repeat("a", 40), strings.Repeat("a", 41), strings.Repeat("a", 42), strings.Repeat("\xff", 55),
	strings.Repeat("1", 65), "sb1" + strings.Repeat("1", 62), "sb1c1795246514376753", "sb1l1795246514376753" + strings.Repeat("a", 43), "\x00\n\r",
	"r 1795246514376753", locktest.Key("a"), "run_id:", strings.Repeat("1", 110), "c" + strings.Repeat("0", 32),
}

// words are what servers and proxies say.
var words = []string{
	"NOSCRIPT No matching script.", "ERR", "", "WRONGTYPE", "NOPERM", "MOVED 1 nowhere:1", "MOVED", "ASK", "LOADING", "BUSY", "x", "READONLY", "NOSCRIPT",
}

func (h *hostileReplies) reply(depth int) string {
	r := h.random
	switch n := r.IntN(12); {
	case n < 3:
		return fmt.Sprintf(":%d\r\n", r.IntN(12)-9)
	case n == 3:
		return fmt.Sprintf(":%d\r\n", int64(r.Uint64()))
	case n == 4:
		return "$-1\r\n"
	case n == 5:
		return "*-1\r\n"
	case n == 6 && depth > 0:
		return "-" + words[r.IntN(len(words))] + "\r\n"
	case n < 9 || depth > 2:
		text := h.text()
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	var all strings.Builder
	if r.IntN(3) == 0 { // a list of waiters, nearly
		rows := 1 + r.IntN(3)
		fmt.Fprintf(&all, "*%d\r\n", 4*rows)
		for range rows {
			for _, text := range []string{h.text(), h.text(), "", h.text()} {
				fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(text), text)
			}
		}
		return all.String()
	}
	parts := r.IntN(9)
	fmt.Fprintf(&all, "*%d\r\n", parts)
	for i := range parts {
		if i == 0 && r.IntN(2) == 0 { // a code, and something behind it
			fmt.Fprintf(&all, ":%d\r\n", r.IntN(12)-8)
			continue
		}
		all.WriteString(h.reply(depth + 1))
	}
	return all.String()
}

func (h *hostileReplies) text() string { return texts[h.random.IntN(len(texts))] }

// hook replies to all that a session asks, apart from what keeps its connections.
func (h *hostileReplies) hook(peer *server.Peer, command string, _ ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return false
	}
	switch command {
	case "EVAL", "EVALSHA", "SCAN", "TIME", "INFO", "DBSIZE", "HGET", "HLEN", "EXISTS", "ZCARD", "GETRANGE", "CLUSTER", "PUBLISH", "WAIT":
	default:
		return false
	}
	if h.random.IntN(9) == 0 {
		peer.WriteRaw("-" + words[h.random.IntN(len(words))] + "\r\n")
		return true
	}
	if strings.Contains("EXISTS ZCARD HLEN", command) && h.random.IntN(2) == 0 {
		peer.WriteInt(1) // so that the caller asks further
		return true
	}
	peer.WriteRaw(h.reply(0))
	return true
}

// say publishes on every channel that is subscribed to.
func (h *hostileReplies) say(f *fixture) {
	h.mu.Lock()
	message := h.text() + h.text()
	h.mu.Unlock()
	for _, channel := range f.redis.PubSubChannels("*") {
		f.redis.Publish(channel, message)
	}
}

// P10: whatever a server replies, no call panics, and a call whose context ends returns.
func TestNoReplyMakesACallPanic(t *testing.T) {
	t.Parallel()
	for _, c := range hostileCalls() {
		if c.inside {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rounds := redistest.Rounds(2, 40)
			if strings.HasPrefix(c.name, "inspect.") {
				rounds = redistest.Rounds(100, 800) // each asks many questions
			}
			for seed := range uint64(rounds) {
				c.hostile(t, seed)
			}
		})
	}
}

// hostileCalls are all calls, and those that tables of faults leave out.
func hostileCalls() []testedCall {
	return append(calls(),
		testedCall{name: "inspect.Names", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error { return drain(inspect.Names(ctx, c.s[0], "")) }
		}},
		testedCall{name: "inspect.List", ready: func(c *callFixture) preparedCall {
			return func(ctx context.Context) error {
				l := inspect.NewList(c.s[0], "", time.Second)
				snapshots := make(chan struct{})
				go func() { // ends with the call's context
					defer close(snapshots)
					for ctx.Err() == nil {
						_ = l.Snapshot(ctx)
						time.Sleep(time.Second)
					}
				}()
				defer func() { <-snapshots }()
				return l.Run(ctx)
			}
		}},
		testedCall{name: "Redisson", ready: func(cf *callFixture) preparedCall {
			c, _ := cf.servers[0].client(cf.T)
			s := signalbox.NewSession(c, quiet, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
			return func(ctx context.Context) error {
				defer c.Close()
				defer func() { _ = s.Close(locktest.Ended()) }()
				return errors.Join(no(fair.New(s, "a").Lock(ctx)), drain(inspect.Names(ctx, s, "")), no(inspect.Name(ctx, s, "a")), inspect.Break(ctx, s, "a"))
			}
		}},
	)
}

// hostile makes a call of a hostile server. A panic on another goroutine ends the tests.
func (c testedCall) hostile(t *testing.T, seed uint64) {
	t.Helper()
	servers := 1
	if c.quorum {
		servers = 3
	}
	bubbleOf(t, servers, func(r *redlockServers) {
		cf := newCallFixture(r, (*fixture).session, healthy)
		run := c.ready(cf)
		h := &hostileReplies{random: rand.New(rand.NewPCG(seed, uint64(len(c.name))))} //nolint:gosec // it is to be repeated
		for _, f := range r.servers {
			f.redis.Server().SetPreHook(h.hook)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- run(ctx) }()
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			for _, f := range r.servers {
				h.say(f)
			}
		}
		select {
		case err := <-done:
			require.False(t, errors.As(err, new(runtime.Error)), "seed %d: %v", seed, err)
		case <-time.After(4 * long):
			t.Errorf("seed %d: it has not returned", seed)
		}
		h.mu.Lock()
		h.ended = true
		h.mu.Unlock()
		cf.heal()
		synctest.Wait()
	})
}
