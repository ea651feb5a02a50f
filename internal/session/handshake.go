// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// handshakes are the session's first contacts with its server: one, and in a cluster one for each slot.
//
// Every caller that comes before the server's time is known joins the same call. The call ends with
// the session, not with the caller that began it: the others still wait for it. An error is
// returned to the callers that waited for it, and the next caller makes a new call.
type handshakes struct {
	session *Session

	calls  singleflight.Group
	ctx    context.Context //nolint:containedctx // the context of the calls; ends at Close
	cancel context.CancelFunc

	versions atomic.Uint64 // how many new versions the process had met before the last hello that succeeded, and first when the session was made
	ofClient atomic.Uint64 // the last of these at the session's own servers
}

func (h *handshakes) init(s *Session) {
	h.session = s
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.versions.Store(wire.EventCount(wire.NewVersion))
}

// Handshake makes sure that the server's time is known, and that the server is new enough. One
// round trip, the first time and when a server of another version is met; key routes it. It returns
// at once when ctx ends.
func (s *Session) Handshake(ctx context.Context, key string) error {
	h := &s.Handshakes
	if h.isGreeted() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// In a cluster each slot has a call of its own: the node of one slot may be away while the others reply.
	node := strconv.Itoa(int(s.NodeID(s.Runner.Slot(key))))
	return h.join(ctx, node, func() error {
		switch err := s.Runner.Connect(h.ctx); {
		case err != nil && h.ctx.Err() != nil:
			return errs.ErrClosed
		case err != nil || h.isGreeted(): // by a call that ended before this one began, or by the first connection
			return err
		}
		return h.hello(h.ctx, s.Runner, key)
	})
}

// join makes a call, or joins the one of that name that is under way, and returns when ctx ends.
func (h *handshakes) join(ctx context.Context, name string, call func() error) error {
	done := h.calls.DoChan(name, func() (any, error) { return nil, call() })
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return errs.OfContext(ctx)
	}
}

// Ping asks the server for its time, whether that is known or not.
func (s *Session) Ping(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("%w: the context is nil", errs.ErrBadOption)
	}
	err := s.Ready()
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return errs.Ended(ctx)
	}
	h := &s.Handshakes
	err = h.join(ctx, "ping", func() error { return h.Greet(h.ctx, s.Runner) })
	if err != nil && ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	return err
}

// Greet asks the server of r for its time and more, as a handshake does. In a cluster that is the node of one slot.
func (h *handshakes) Greet(ctx context.Context, r *wire.Runner) error {
	return h.greet(ctx, r, "hello")
}

// greet is Greet for the slot of a name.
func (h *handshakes) greet(ctx context.Context, r *wire.Runner, name string) error {
	probe, err := h.session.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	return h.hello(ctx, r, probe.Holder)
}

// greetings is how many slots GreetAny asks at most: with a third of the slots away, one session in 6,000 meets no others. greetPause is
// how long it waits for a reply before it asks the next one.
const greetings, greetPause = 8, 250 * time.Millisecond

// GreetAny is Greet for a client that has just connected. In a cluster some nodes may be away while others serve: one that replies is
// enough. The next slot is asked when one has failed, or is slow.
func (h *handshakes) GreetAny(ctx context.Context, r *wire.Runner) error {
	if !r.Clustered() {
		return h.Greet(ctx, r)
	}
	ctx, cancel := context.WithCancel(ctx) // the requests that are left end with it
	defer cancel()
	replies := make(chan error, greetings)
	slow := time.NewTimer(greetPause)
	defer slow.Stop()
	var failure error
	for asked, failed := 0, 0; failed < greetings; {
		if asked < greetings {
			name := "hello"
			if asked > 0 {
				name += "/" + strconv.Itoa(asked)
			}
			go func() { replies <- h.greet(ctx, r, name) }() // it ends with ctx, and there is room for its reply
			asked++
			slow.Reset(greetPause)
		}
		select {
		case err := <-replies:
			if err == nil || wire.Judge(err) == wire.Final {
				return err
			}
			failed, failure = failed+1, cmp.Or(failure, err)
		case <-slow.C:
		}
	}
	return failure
}

// AwaitConnection waits until the session has its first connection, and returns why it gave up, or nil. A call that begins to listen,
// or makes what depends on Clustered, and repeats its request afterwards, waits so before.
func (s *Session) AwaitConnection(ctx context.Context) error {
	if s.Runner.IsConnected() {
		return nil
	}
	return new(wire.LastReply).AwaitConnection(ctx, s.Runner)
}

// HandshakeInCluster is Handshake if the server is a cluster. That shows with which commands scripts publish
// there. It is for calls that need no handshake otherwise. If it fails, scripts publish as in a
// cluster of real servers.
func (s *Session) HandshakeInCluster(ctx context.Context, key string) {
	if s.Runner.Clustered() {
		_ = s.Handshake(ctx, key)
	}
}

// isGreeted reports whether a handshake has succeeded, and no server has named another version since. An older one may have taken
// over the address.
func (h *handshakes) isGreeted() bool {
	changes := wire.EventCount(wire.NewVersion)
	s := h.session
	switch {
	case !s.Clock.Known() || !s.Runner.IsConnected():
		return false
	case h.versions.Load() == changes:
	case h.ofClient.Load() != wire.LastEvent(wire.NewVersion, s.client):
		return false
	default: // it was the server of another session
		h.versions.Store(changes)
	}
	return true
}

// hello asks the server for its time and more.
func (h *handshakes) hello(ctx context.Context, r *wire.Runner, key string) error {
	s := h.session
	versions, ofClient := wire.EventCount(wire.NewVersion), wire.LastEvent(wire.NewVersion, s.client)
	reply, err := r.Run(ctx, wire.Call{Script: wire.HelloScript, Keys: []string{key}})
	greeting := proto.ReadGreeting(&reply)
	switch {
	case err != nil && h.ctx.Err() != nil:
		return errs.ErrClosed
	case err != nil:
		return err
	case greeting.Now == 0:
		return wire.ErrUnreadable
	case !greeting.IsNew:
		return s.Outages.tooOld(key, fmt.Errorf("%w: Redis 6.2 is the oldest that works", errs.ErrOldServer))
	}
	s.Outages.newEnough(key)
	if !greeting.Sharded && !s.Clock.Known() { // later there are subscriptions
		s.Dispatch.DisableShardedChannels() // before any caller that waits for this continues
	}
	s.Logs.warnOfEviction(greeting.Limit, greeting.Policy) // before the time is known: callers then pass Handshake, and may call Close
	s.Clock.Observe(s.Runner.Slot(key), greeting.Now, timers.Now())
	h.ofClient.Store(ofClient) // first: versions says that this is known
	h.versions.Store(versions)
	return nil
}

// slotProbes is how many names ReachesSlots asks for. Their slots are spread at random: that all of them are at a node with 9 of 10
// slots has a chance of 1 to 1,000.
const slotProbes = 64

// ReachesSlots returns ErrUnsupported if the server of r is a node of a cluster, has not all slots, and the client follows no redirection.
func (h *handshakes) ReachesSlots(ctx context.Context, r *wire.Runner) error {
	var probes []wire.Call
	for i := range slotProbes {
		set, err := h.session.Names(proto.Native(), fmt.Sprint("hello/", i))
		if err != nil {
			return err
		}
		probes = append(probes, wire.Call{Command: "EXISTS", Keys: []string{set.Holder}})
	}
	for _, outcome := range r.RunMany(ctx, probes) {
		if errors.Is(outcome.Err, errs.ErrUnsupported) {
			return outcome.Err
		}
	}
	return nil
}
