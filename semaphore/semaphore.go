// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// MaxPermits is the greatest capacity.
const MaxPermits = 1<<31 - 1

// Semaphore is one name, as one session sees it. It holds nothing itself: what is held is the lease.
// Semaphores of one name in one session are the same. It is safe for concurrent use. New makes one; the zero
// Semaphore is of no use.
type Semaphore struct {
	single   acquire.Acquirer // acquires one permit, as most calls do
	table    *proto.SemaphoreTable
	registry *permitRegistry
	capacity int
}

// ExactCapacity makes the calls that ask for permits return ErrCapacity if the server has another
// capacity than the one passed to New. Without it the server's number applies, and calls do not
// fail: during a deployment some processes still pass the old number. A waiter continues to wait
// when the number changes.
func ExactCapacity() signalbox.LockOption {
	return session.Option(proto.OptionExactCapacity, nil, func(l *session.LockSettings) { l.Exact = true })
}

// Plain makes a semaphore without owners, in a layout of others that has one: a number of free permits, whose
// other users have neither ids nor leases. docs/redisson-protocol.md says what differs. In any other
// layout it is ErrBadOption.
func Plain() signalbox.LockOption {
	return session.Option(proto.OptionPlain, nil, func(l *session.LockSettings) { l.Plain = true })
}

// New returns the semaphore name of the session. capacity is the number of permits to begin with, from 1 to MaxPermits.
// The first acquire stores it on the server. From then on the server's number applies, which
// SetCapacity changes. The server forgets it a minute after the last use
// (signalbox.WithTokenFloor), or an hour after it if SetCapacity set it. So a deployment that
// changes the number must call SetCapacity; passing it to New is not enough.
//
// New sends nothing and never fails: if a name, a capacity or an option is not valid, every call
// returns the error, and so does Check.
func New(s *signalbox.Session, name string, capacity int, options ...signalbox.LockOption) *Semaphore {
	sem := &Semaphore{capacity: capacity}
	base := &sem.single.Base
	*base = acquire.Make(s, name, &proto.Semaphore, options)
	err := errs.Join(base.Err, checkCapacity(capacity))
	if err == nil {
		sem.table, err = tableOf(base)
	}
	if err != nil {
		base.Fail(err)
		return sem
	}
	base.Names = sem.table.Names(base.Names)
	sem.registry = registryOf(base.Session, base.Layout, sem.table)
	sem.single.Shared = sem.singleShared(len(options) > 0)
	return sem
}

// tableOf returns what the semaphore is on the server.
func tableOf(b *acquire.Base) (*proto.SemaphoreTable, error) {
	switch {
	case !b.Plain:
		return b.Layout.Semaphore, nil
	case b.Layout.PlainSemaphore == nil:
		return nil, fmt.Errorf("%w: the layout has no plain semaphore: signalbox.WithLayout sets one that has", errs.ErrBadOption)
	case b.Exact:
		return nil, fmt.Errorf("%w: nobody knows how many permits a plain semaphore has, exactly or not", errs.ErrBadOption)
	}
	return b.Layout.PlainSemaphore, nil
}

func checkCapacity(n int) error {
	if n < 1 || n > MaxPermits {
		return fmt.Errorf("%w: a capacity of %d: it must be from 1 to %d", errs.ErrBadOption, n, MaxPermits)
	}
	return nil
}

// Check returns what is wrong with the name, the capacity, the options or the session, or nil. It
// sends nothing.
func (s *Semaphore) Check() error { return s.root().Check() }

// Acquire acquires n permits, 1 or more, all at once. It blocks until it has them or ctx ends. Waiters are served
// in the order in which they asked, however few permits a later one wants. The exception: a session
// hands permits to its own goroutines first, for at most 20 ms at a time; see the package doc. ctx
// bounds the waiting, not the hold: the lease does not end with ctx. A waiter that leaves and asks
// again goes to the end of the queue.
//
// It is not reentrant: with a context that carries a lease of the semaphore it acquires n further
// permits. A holder that waits for more permits can wait for itself.
//
// The error is the context's, joined with ErrHeld if too few permits were free by the last reply,
// or with ErrRefused and the server's words if the server refused. It is ErrCapacity if there are
// fewer than n permits in all, even if that becomes so during the wait. If waiting cannot help, the
// error is ErrBusy, ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, ErrOldServer,
// ErrUnsupported or ErrNotReplicated. While the server is away, or refuses for now,
// Acquire waits.
func (s *Semaphore) Acquire(ctx context.Context, n int) (signalbox.Lease, error) {
	lease, err := s.acquire(ctx, n)
	return signalbox.Lease(lease), s.root().Explain("acquire", err)
}

// TryAcquire acquires n permits if they are free and the queue is empty, in one round trip. Otherwise
// it returns ErrHeld: it does not overtake a waiter, not even one that has just given up and has
// not left the queue yet. If the server refuses for now, it returns ErrRefused.
//
// TryAcquire fails without contacting the server while another goroutine of this session is
// waiting. If n exceeds the capacity passed to New, it asks the server first, so that it can return
// ErrCapacity. If the leases of more than a thousand holders ended at once, TryAcquire may fail
// although enough permits are free, until other calls or the polls of waiters have removed
// them.
//
// If the server is silent, the call returns when ctx ends, or with ErrNoReply when the client gives
// the connection up; see signalbox.Tune.
func (s *Semaphore) TryAcquire(ctx context.Context, n int) (signalbox.Lease, error) {
	lease, err := s.tryAcquire(ctx, n)
	return signalbox.Lease(lease), s.root().Explain("try acquire", err)
}

// Do acquires n permits, runs fn and releases them, also if fn panics or ends its goroutine. fn's
// context ends with the lease. The error is fn's, joined with Unlock's: ErrLost in it says that fn did
// not have the permits to its end.
func (s *Semaphore) Do(ctx context.Context, n int, fn func(ctx context.Context, lease signalbox.Lease) error) (err error) {
	if fn == nil {
		return s.root().Explain("acquire", cmp.Or(s.root().Ready(ctx), acquire.ErrNoFunc))
	}
	lease, err := s.Acquire(ctx, n)
	if err != nil {
		return err
	}
	defer func() { err = errs.Join(err, s.root().Explain("release", lease.Unlock())) }()
	return fn(lease.Bind(ctx), lease)
}

// root returns the base of the lock. A nil Semaphore has an empty one, whose calls return
// ErrBadOption.
func (s *Semaphore) root() *acquire.Base {
	if s == nil {
		return new(acquire.Base)
	}
	return &s.single.Base
}

func (s *Semaphore) acquire(ctx context.Context, n int) (hold.Lease, error) {
	acquirer, err := s.acquirerFor(ctx, n)
	if err != nil {
		return hold.Lease{}, err
	}
	call := s.single.BeginCall(ctx)
	lease, err := acquirer.Acquire(ctx)
	return lease.Observe(call, err)
}

func (s *Semaphore) tryAcquire(ctx context.Context, n int) (hold.Lease, error) {
	acquirer, err := s.acquirerFor(ctx, n)
	if err != nil {
		return hold.Lease{}, err
	}
	call := s.single.BeginCall(ctx)
	lease, err := acquirer.TryAcquire(ctx)
	if n > s.capacity && errors.Is(err, errs.ErrHeld) {
		err = s.heldOrTooFew(ctx, n, err)
	}
	return lease.Observe(call, err)
}

// heldOrTooFew returns ErrCapacity if the capacity is below n, else held. A caller that is refused in this process, because
// other goroutines wait, has sent nothing to the server, and would be refused for as long as any goroutine waits.
func (s *Semaphore) heldOrTooFew(ctx context.Context, n int, held error) error {
	if !s.table.TotalKnown {
		return held
	}
	if capacity, _, err := s.usage(ctx); err == nil && int64(n) > capacity {
		return tooFew(capacity)
	}
	return held
}

// acquirerFor returns the acquirer of n permits, or why n permits cannot be acquired.
func (s *Semaphore) acquirerFor(ctx context.Context, n int) (*acquire.Acquirer, error) {
	if err := s.root().Ready(ctx); err != nil {
		return nil, err
	}
	switch {
	case n < 1:
		return nil, fmt.Errorf("%w: %d permits: it must be 1 or more", errs.ErrBadOption, n)
	case n > MaxPermits:
		return nil, fmt.Errorf("%w: no semaphore has %d permits", errs.ErrCapacity, n)
	case n > s.table.MaxPermits:
		return nil, fmt.Errorf("%w: %d permits at once: in this layout it must be %d or fewer", errs.ErrBadOption, n, s.table.MaxPermits)
	case n == 1:
		return &s.single, nil
	}
	return s.newAcquirer(n), nil
}

func (s *Semaphore) newAcquirer(n int) *acquire.Acquirer {
	return &acquire.Acquirer{Base: s.single.Base, Shared: s.newShared(n)}
}

func (s *Semaphore) newShared(n int) *acquire.Shared {
	shared := s.registry.NewShared(&s.registry.scope, s.newRequest(n), s.single.Terms.Lease)
	return &shared
}

// singleShared returns what acquires one permit. Semaphores without options of their own share the newest one of their capacity.
func (s *Semaphore) singleShared(hasOptions bool) *acquire.Shared { //nolint:revive // a fact, not a switch
	if hasOptions {
		return s.newShared(1)
	}
	last := s.registry.single.Load()
	if last == nil || last.capacity != s.capacity {
		last = &singlePermit{s.capacity, s.newShared(1)}
		s.registry.single.Store(last)
	}
	return last.shared
}

func (s *Semaphore) newRequest(n int) *queue.Request {
	terms := proto.PermitTerms{Permits: strconv.Itoa(s.capacity), Exact: proto.Flag(s.single.Exact)}
	return &queue.Request{
		Life: s.single.Terms.First(), FloorTTL: s.single.Floor, Mode: fmt.Sprintf("%0*d", proto.WeightSize, n), Concurrent: true,
		ShareKey: acquire.ShareKeyFor(&s.table.Table, s.shareKey(n), waitroom.ShareKey{Policy: waitroom.Own, Concurrent: true}),
		Args:     append(terms.AppendTo(nil), s.table.Args...),
	}
}

// shareKey returns the terms by which requests for n permits share a ticket. It is zero if the time of the permits counts from the
// grant, because such permits are not handed over.
func (s *Semaphore) shareKey(n int) waitroom.ShareKey {
	terms := s.single.Terms
	if terms.Fixed || terms.MaxHold > 0 {
		return waitroom.ShareKey{}
	}
	key := waitroom.ShareKey{Concurrent: true, Lease: terms.Lease, FirstLease: terms.First(), Replicas: s.single.Replicas.Small()}
	key.Permits = int32(n) //nolint:gosec // at most MaxPermits
	if s.single.Exact {
		// If the server has another capacity, only an exact semaphore is refused.
		key.Capacity = int32(s.capacity) //nolint:gosec // at most MaxPermits
	}
	return key
}

// kind is what the session knows semaphores as.
const kind = "semaphore"

// permitRegistry is what one session keeps for the semaphores of one layout.
type permitRegistry struct {
	acquire.Manager

	scope  hold.Scope
	alias  string
	single atomic.Pointer[singlePermit] // nil until a semaphore without options of its own was made
}

// singlePermit is what semaphores with a capacity, and without options of their own, share to acquire one permit.
type singlePermit struct {
	capacity int
	shared   *acquire.Shared
}

// Alias implements session.Aliased.
func (r *permitRegistry) Alias() string { return r.alias }

func registryOf(s *session.Session, l *proto.Layout, table *proto.SemaphoreTable) *permitRegistry {
	return session.RegistryOf(s, table.RegistryName, func() *permitRegistry {
		r := &permitRegistry{Manager: acquire.NewManager(s, l, &table.Table, refusal), scope: hold.Scope{Kind: kind}}
		if table.SessionAlias != nil {
			r.alias = table.SessionAlias(s.ID())
		}
		return r
	})
}

// refusal returns the error of a reply that no waiting can change: wire.TooFew or wire.OtherCapacity.
func refusal(code wire.Code, capacity int64) error {
	if code == wire.TooFew {
		return tooFew(capacity)
	}
	return inexact(capacity)
}

func tooFew(capacity int64) error {
	return fmt.Errorf("%w: there are %d permits", errs.ErrCapacity, capacity)
}

func inexact(capacity int64) error {
	return fmt.Errorf("%w: the server has %d permits, and New was called with another number", errs.ErrCapacity, capacity)
}
