// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/shards"
)

// Hold is what the lease of each kind can do.
type Hold interface {
	Token() uint64
	Err() error
	Done() <-chan struct{}
	Deadline() time.Time
	Unlock() error
}

// Lock is what each kind can do.
type Lock interface {
	Lock(ctx context.Context) (Hold, error)
	TryLock(ctx context.Context) (Hold, error) // errNoTry if there is no such call
}

var errNoTry = errors.New("this kind has no TryLock")

// of makes locks of a kind of the kit.
func of(p locktest.Primitive) Maker {
	return func(s Sessions, name string, options ...signalbox.LockOption) Lock {
		return leased{p.New(s[0], name, options...)}
	}
}

// leased is a lock whose holds are leases.
type leased struct {
	lock interface {
		Lock(ctx context.Context) (signalbox.Lease, error)
		TryLock(ctx context.Context) (signalbox.Lease, error)
	}
}

func (l leased) Lock(ctx context.Context) (Hold, error)    { return orNil(l.lock.Lock(ctx)) }
func (l leased) TryLock(ctx context.Context) (Hold, error) { return orNil(l.lock.TryLock(ctx)) }

// orNil makes an interface that is nil of the zero lease beside an error.
func orNil[H Hold](h H, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return h, nil
}

// permits makes semaphores that acquire n permits of all.
func permits(n, all int) Maker {
	return func(s Sessions, name string, options ...signalbox.LockOption) Lock {
		return leased{weighted{semaphore.New(s[0], name, all, options...), n}}
	}
}

// weighted acquires n permits at once.
type weighted struct {
	permits *semaphore.Semaphore
	n       int
}

func (w weighted) Lock(ctx context.Context) (signalbox.Lease, error) {
	return w.permits.Acquire(ctx, w.n)
}

func (w weighted) TryLock(ctx context.Context) (signalbox.Lease, error) {
	return w.permits.TryAcquire(ctx, w.n)
}

// newDowngraded makes read-write locks whose writers become readers at once.
func newDowngraded(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return leased{downgraded{rwlock.New(s[0], name, options...)}}
}

type downgraded struct{ lock *rwlock.Lock }

// Lock acquires again if the lease ends before it is a reader's.
func (d downgraded) Lock(ctx context.Context) (lease signalbox.Lease, err error) {
	for err = signalbox.ErrLost; errors.Is(err, signalbox.ErrLost); {
		lease, err = d.downgrade(ctx, d.lock.Lock)
	}
	return lease, err
}

func (d downgraded) TryLock(ctx context.Context) (signalbox.Lease, error) {
	return d.downgrade(ctx, d.lock.TryLock)
}

func (d downgraded) downgrade(ctx context.Context, acquire func(context.Context) (signalbox.Lease, error)) (signalbox.Lease, error) {
	lease, err := acquire(ctx)
	if err != nil {
		return lease, err
	}
	for range 3 { // it may be repeated
		if err = d.lock.Downgrade(ctx, lease); err == nil {
			return lease, nil
		}
	}
	go func() { _ = lease.Unlock() }() // it takes up to a second, and ctx may have ended
	return signalbox.Lease{}, err
}

// newPair makes a multilock of a fair and a reentrant lock. Keys of the name are those of the second.
func newPair(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return leased{multilock.New(pairOf(s, name, options)...)}
}

// newReversedPair is newPair with its members in the other order.
func newReversedPair(s Sessions, name string, options ...signalbox.LockOption) Lock {
	members := pairOf(s, name, options)
	return leased{multilock.New(members[1], members[0])}
}

func pairOf(s Sessions, name string, options []signalbox.LockOption) []multilock.Member {
	member := func(p locktest.Primitive, name string) multilock.Member {
		m, _ := p.New(s[0], name, options...).(multilock.Member)
		return m
	}
	return []multilock.Member{member(locktest.Fair(), name+"/b"), member(locktest.Reentrant(), name)}
}

// newUnlike makes a multilock of members with unlike keys and scripts. Keys of the name are those of the first.
func newUnlike(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return leased{multilock.New(
		rwlock.New(s[0], name, options...), semaphore.New(s[0], name+"/b", 3, options...).Permits(2), reentrant.New(s[0], name+"/c", options...),
	)}
}

// newQuorum makes a redlock, with tokens that rise.
func newQuorum(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return leased{redlock.New(s, name, append(options, redlock.Fenced())...)}
}

// starter is a latch that is held by the round that runs, until that has been counted down.
type starter struct{ latch *countdown.Latch }

// newLatch makes a latch. It takes no option of leases.
func newLatch(s Sessions, name string, _ ...signalbox.LockOption) Lock {
	return starter{countdown.New(s[0], name)}
}

func (s starter) Lock(ctx context.Context) (Hold, error) {
	for {
		h, err := s.TryLock(ctx)
		if !errors.Is(err, signalbox.ErrRunning) {
			return h, err
		}
		// It has one try. If waiting cannot help, the next Start says so.
		if round, err := s.latch.Round(ctx); err == nil {
			_ = round.Wait(ctx)
		}
	}
}

func (s starter) TryLock(ctx context.Context) (Hold, error) {
	r, err := s.latch.Start(ctx, 1)
	if errors.Is(err, signalbox.ErrRunning) {
		err = fmt.Errorf("%w: %w", signalbox.ErrHeld, err)
	}
	return orNil(round{r}, err)
}

// isHeld says whether a round runs.
func (s starter) isHeld(ctx context.Context) bool {
	r, err := s.latch.Round(ctx)
	if err != nil {
		return false
	}
	left, _ := r.Count(ctx)
	return left > 0
}

// round is a round of one. Nothing ends it but its count.
type round struct{ countdown.Round }

func (r round) Token() uint64       { return r.ID() }
func (round) Err() error            { return nil }
func (round) Done() <-chan struct{} { return nil }
func (round) Deadline() time.Time   { return time.Time{} }

// Unlock counts the round down.
func (r round) Unlock() error {
	_, err := r.CountDown(context.Background(), "an id")
	return err
}

// candidate is an election that is held by its leader.
type candidate struct{ election *election.Election }

func newElection(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return candidate{election.New(s[0], name, options...)}
}

func (c candidate) Lock(ctx context.Context) (Hold, error) {
	t, err := c.election.Campaign(ctx)
	return orNil(term{t}, err)
}

func (candidate) TryLock(context.Context) (Hold, error) { return nil, errNoTry }

type term struct{ election.Term }

// Unlock ends the term.
func (t term) Unlock() error { return t.Resign() }

// runner is a once that is held while its function runs. The function fails, so that no outcome is stored.
type runner struct{ once *once.Once }

func newOnce(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return runner{once.New(s[0], name, options...)}
}

// errFails is the result of each function of a once.
var errFails = errors.New("the function fails")

// running is a function of a once that runs until it is unlocked, or its lease ends.
type running struct {
	signalbox.Lease

	ends  chan struct{} // closed: the function is to return
	ended chan struct{} // closed: Do has returned
	err   *error        // the result of Do
}

// Unlock lets the function return, and returns what Do returns for another reason than that.
func (r running) Unlock() error {
	if err := r.Err(); err != nil {
		return err
	}
	close(r.ends)
	<-r.ended
	if errors.Is(*r.err, errFails) {
		return nil
	}
	return *r.err
}

func (runner) TryLock(context.Context) (Hold, error) { return nil, errNoTry }

// Lock returns when the function of this caller runs. A caller that waits for the function of another one shares its error, and
// then calls again.
func (r runner) Lock(ctx context.Context) (Hold, error) {
	for {
		began, ended := make(chan running, 1), make(chan struct{})
		var err error
		own, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // the wait ends with ctx, and the hold does not
		stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
		go func() {
			defer close(ended)
			_, _, err = r.once.Do(own, func(_ context.Context, lease signalbox.Lease) ([]byte, error) {
				h := running{lease, make(chan struct{}), ended, &err}
				began <- h
				select {
				case <-h.ends:
				case <-lease.Done():
				case <-own.Done(): // its caller has given up, and the function of a once ends with none
				}
				return nil, errFails
			})
			cancel(nil)
		}()
		select {
		case h := <-began:
			if !stop() {
				<-ended
				return nil, ctx.Err()
			}
			return h, nil
		case <-ended:
			if !errors.Is(err, errFails) {
				return nil, errors.Join(ctx.Err(), err)
			}
		}
	}
}

// divided is a group of one shard, which is held by its owner.
type divided struct{ group *shards.Group }

func newShards(s Sessions, name string, options ...signalbox.LockOption) Lock {
	return divided{shards.New(s[0], name, shards.Count(1), options...)}
}

func (divided) TryLock(context.Context) (Hold, error) { return nil, errNoTry }

// Lock joins, and returns when the member owns the shard.
func (d divided) Lock(ctx context.Context) (Hold, error) {
	m, err := d.group.Join(ctx)
	if err != nil {
		return nil, err
	}
	granted := make(chan shards.Shard, 1)
	go func() { // ends with the member
		for change := range m.Changes() {
			if change.Kind == shards.Granted {
				granted <- change.Shard
			} else {
				_ = change.Shard.Release()
			}
		}
	}()
	select {
	case s := <-granted:
		return owned{s, m}, nil
	case <-m.Done():
		return nil, m.Err()
	case <-ctx.Done():
		_ = m.Leave(locktest.Ended())
		return nil, ctx.Err()
	}
}

// owned is a shard, and the member that owns it.
type owned struct {
	shards.Shard

	member *shards.Member
}

// Unlock lets the member leave.
func (o owned) Unlock() error {
	err := o.Err()
	ctx, cancel := whileRunning()
	defer cancel()
	return errors.Join(err, o.member.Leave(ctx))
}

// whileRunning returns a context that ends when this process has run for redistest.WaitLimit. One that is stopped for longer, or in turns
// with outages, has not waited for so long.
func whileRunning() (context.Context, context.CancelFunc) {
	const parts = 60
	ctx, cancel := context.WithCancelCause(context.Background())
	ticker := time.NewTicker(redistest.WaitLimit / parts) // of the ticks during a stop it keeps one
	go func() {                                           // ends with ctx
		defer ticker.Stop()
		for range parts {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() { cancel(nil) }
}
