// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/testkit"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

const (
	// patience bounds a call of the kit's own.
	patience = 10 * time.Second
	// tokenGap is a time of the server after which tokens have risen, whatever was handed over before.
	tokenGap = time.Millisecond
)

// Holding is a lock in the hands of another process, which the kit plays.
type Holding struct {
	token   uint64
	release func() error
	failed  func(error)
}

// Token returns the fencing token of the other process. After Lose it is greater than that of the lease that was lost.
func (h *Holding) Token() uint64 { return h.token }

// Release releases the lock, so that the next waiter gets it. It does nothing if the other process has lost the lock, or
// has released it.
func (h *Holding) Release() {
	err := h.release()
	if err != nil && !errors.Is(err, signalbox.ErrLost) && !errors.Is(err, signalbox.ErrNotHeld) {
		h.failed(err)
	}
}

// HoldOption says how Hold holds a name.
type HoldOption func(*want)

// want is what the kit takes of a name.
type want struct {
	kind              string // the kind of a Holder, or "permits"
	permits, capacity int
}

// Writing makes Hold hold a lock of package rwlock to write.
func Writing() HoldOption { return func(request *want) { request.kind = "rwlock" } }

// Reading makes Hold hold a lock of package rwlock to read.
func Reading() HoldOption { return func(request *want) { request.kind = "read" } }

// Permits makes Hold hold n permits of a semaphore with that capacity. Numbers that semaphore.New and Acquire refuse fail the test.
func Permits(n, capacity int) HoldOption {
	return func(request *want) { *request = want{"permits", n, capacity} }
}

// Hold lets another process acquire the lock name, and hold it until Release. Without an option it is the lock of package
// reentrant, which is also that of fair, of an election, and of the claim of a once. If the name is held already, the
// test fails.
func (k *Kit) Hold(name string, options ...HoldOption) *Holding {
	k.tb.Helper()
	k.mustRun("Hold")
	keys := k.keys("Hold", name)
	request := want{kind: "reentrant"}
	for _, option := range options {
		option(&request)
	}
	lease, err := k.tryAcquire(name, request)
	if err != nil {
		k.tb.Fatalf("signalboxtest: Hold(%q): %v", name, err)
	}
	return k.holding(name, keys, lease)
}

// Lose takes a lock from its holder, as a failover does that loses the write, and gives it to another process, which
// holds it until Release. The holder's session is notified at once: the lease ends with ErrLost within a round trip.
// Waiters lose their tickets, and queue again within about a second. It takes a millisecond, so that tokens rise.
//
// A semaphore loses all its permits, an rwlock all its readers, and a redlock the vote of this server, which goes to
// no process. If the name is not held, or Hold or Lose holds it already, the test fails.
func (k *Kit) Lose(name string) *Holding {
	k.tb.Helper()
	keys, holders := k.mustHold("Lose", name)
	for _, group := range holders {
		if slices.Contains(group.sessions, k.own.ID()) {
			k.tb.Fatalf("signalboxtest: Lose(%q): the kit itself holds it; call Release first", name)
		}
	}
	pause(tokenGap)
	var leases []signalbox.Lease
	for _, group := range holders {
		leases = append(leases, k.seize(name, keys, group)...)
	}
	for _, u := range k.allClients() {
		if u.session != nil {
			testkit.Recheck(u.session, keys)
		}
	}
	return k.holding(name, keys, leases...)
}

// seize takes a name from its holders. A waiter whose request arrives between the two steps may get it first, and loses
// it then as well.
func (k *Kit) seize(name string, keys testkit.Keys, holders nameHolders) []signalbox.Lease {
	k.tb.Helper()
	const tries = 100
	var err error
	for range tries {
		k.delete(keys.Queues...)
		k.delete(holders.key)
		if holders.kind == "redlock" {
			return nil
		}
		var lease signalbox.Lease
		if lease, err = k.tryAcquire(name, holders.want); err == nil {
			return []signalbox.Lease{lease}
		}
	}
	k.tb.Fatalf("signalboxtest: Lose(%q): %v", name, err)
	return nil
}

// Expire ends what the server has under a name, as if no renewal had arrived in time: the hold of a lock, permits and
// readers, the round of a latch, the outcome of a once. The holder is not notified. It finds out at its next
// renewal, and until then works beside the next holder: that is what fencing tokens are for. Waiters find out within
// about a second. It takes a millisecond, so that tokens rise. If there is nothing to end, the test fails.
func (k *Kit) Expire(name string) {
	k.tb.Helper()
	k.mustRun("Expire")
	keys := k.keys("Expire", name)
	pause(tokenGap)
	holders := k.holders("Expire", name, keys)
	for _, group := range holders {
		k.delete(group.key)
	}
	if !k.delete(keys.Stored...) && len(holders) == 0 {
		k.notHeld("Expire", name)
	}
	k.forget(keys.Holds[0])
}

// IsHeld reports whether a session holds the lock, or permits of the semaphore, of that name.
func (k *Kit) IsHeld(name string) bool {
	k.tb.Helper()
	k.mustRun("IsHeld")
	return len(k.holders("IsHeld", name, k.keys("IsHeld", name))) > 0
}

// HeldBy reports whether a session holds the lock, or permits of the semaphore, of that name, alone or beside others.
func (k *Kit) HeldBy(name string, s *signalbox.Session) bool {
	k.tb.Helper()
	k.mustRun("HeldBy")
	for _, g := range k.holders("HeldBy", name, k.keys("HeldBy", name)) {
		if slices.Contains(g.sessions, s.ID()) {
			return true
		}
	}
	return false
}

// tryAcquire lets the kit's own session acquire a name, without waiting.
func (k *Kit) tryAcquire(name string, request want) (signalbox.Lease, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch request.kind {
	case "rwlock":
		return rwlock.New(k.own, name, k.layout...).TryLock(ctx)
	case "read":
		return rwlock.New(k.own, name, k.layout...).TryRLock(ctx)
	case "permits":
		return semaphore.New(k.own, name, request.capacity, k.layout...).TryAcquire(ctx, request.permits)
	}
	return reentrant.New(k.own, name, k.layout...).TryLock(ctx)
}

func (k *Kit) holding(name string, keys testkit.Keys, leases ...signalbox.Lease) *Holding {
	k.mu.Lock()
	k.held[keys.Holds[0]] = kitHold{keys, append(k.held[keys.Holds[0]].leases, leases...)}
	k.mu.Unlock()
	h := &Holding{failed: func(err error) {
		k.tb.Helper()
		k.tb.Fatalf("signalboxtest: Release of %q: %v", name, err)
	}}
	if len(leases) > 0 {
		h.token = leases[0].Token()
	}
	h.release = func() error {
		for _, lease := range leases {
			if err := lease.Unlock(); err != nil {
				return err
			}
		}
		return nil
	}
	return h
}

// forget ends the kit's own leases of a key that the server has lost, so that the next Hold or Lose acquires it anew.
func (k *Kit) forget(key string) {
	k.tb.Helper()
	k.mu.Lock()
	lost := k.held[key]
	delete(k.held, key)
	k.mu.Unlock()
	if lost.leases == nil {
		return
	}
	testkit.Recheck(k.own, lost.keys)
	late := time.NewTimer(patience)
	defer late.Stop()
	for _, lease := range lost.leases {
		select {
		case <-lease.Done():
		case <-late.C:
			k.tb.Fatalf("signalboxtest: the kit's own lease of %q outlives its loss", key)
		}
	}
}

// nameHolders is what sessions hold of a name: a lock, or permits.
type nameHolders struct {
	want

	key      string
	sessions []string
}

// mustHold returns what is held of a name, or fails the test.
func (k *Kit) mustHold(call, name string) (testkit.Keys, []nameHolders) {
	k.tb.Helper()
	k.mustRun(call)
	keys := k.keys(call, name)
	holders := k.holders(call, name, keys)
	if len(holders) == 0 {
		k.notHeld(call, name)
	}
	return keys, holders
}

// holders returns what is held of a name, as the server says.
func (k *Kit) holders(call, name string, keys testkit.Keys) (all []nameHolders) {
	k.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	readers := []func(context.Context, string) (nameHolders, error){k.lockHolders, k.permitHolders}
	for i, key := range keys.Holds {
		g, err := readers[i](ctx, name)
		if err != nil {
			k.tb.Fatalf("signalboxtest: %s(%q): %v", call, name, err)
		}
		if g.sessions != nil {
			g.key = key
			all = append(all, g)
		}
	}
	return all
}

// lockHolders returns the sessions that hold the lock of a name, of whatever kind.
func (k *Kit) lockHolders(ctx context.Context, name string) (holders nameHolders, err error) {
	h, err := reentrant.New(k.own, name, k.layout...).Holder(ctx)
	if errors.Is(err, signalbox.ErrNotHeld) {
		return nameHolders{}, nil
	}
	holders = nameHolders{want: want{kind: h.Kind}, sessions: []string{h.Session}}
	if err == nil && h.Kind == "rwlock" {
		for h, err := range rwlock.New(k.own, name, k.layout...).Holders(ctx) {
			if err != nil {
				return holders, err
			}
			holders.sessions = append(holders.sessions, h.Session)
		}
	}
	return holders, err
}

// permitHolders returns the sessions that hold permits of a name.
func (k *Kit) permitHolders(ctx context.Context, name string) (holders nameHolders, err error) {
	limit := semaphore.New(k.own, name, 1)
	holders.kind = "permits"
	for h, err := range limit.Holders(ctx) {
		if err != nil {
			return holders, err
		}
		holders.permits += h.Permits
		holders.sessions = append(holders.sessions, h.Session)
	}
	if holders.sessions == nil {
		return holders, nil
	}
	free, err := limit.Available(ctx)
	holders.capacity = holders.permits + max(free, 0)
	return holders, err
}

// notHeld fails the test for a name that is not held. It lists those that are; in a layout of other clients any string may
// be a lock.
func (k *Kit) notHeld(call, name string) {
	k.tb.Helper()
	if k.layout != nil {
		k.tb.Fatalf("signalboxtest: %s(%q): no session holds it in this layout", call, name)
	}
	var held []string
	for _, key := range k.server.Keys() {
		_, rest, _ := strings.Cut(key, "{")
		tag, _, found := strings.Cut(rest, "}")
		other, err := url.PathUnescape(tag) // the reverse of how names are encoded
		if !found || err != nil {
			continue
		}
		if shown := strconv.Quote(other); !slices.Contains(held, shown) && len(k.holders(call, other, k.keys(call, other))) > 0 {
			held = append(held, shown)
		}
	}
	if held == nil {
		held = []string{"nothing"}
	}
	k.tb.Fatalf("signalboxtest: %s(%q): no session holds it; held: %s", call, name, strings.Join(held, ", "))
}

// delete deletes keys, and reports whether there was one.
func (k *Kit) delete(keys ...string) (found bool) {
	for _, key := range keys {
		found = k.server.Del(key) || found
	}
	return found
}
