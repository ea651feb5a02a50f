// SPDX-License-Identifier: Apache-2.0

package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Member is a lock that can be one of several: *reentrant.Lock, *fair.Lock, *rwlock.Lock, which is
// acquired for writing, the result of its method Reader, or that of a semaphore's method Permits.
type Member interface {
	Lock(ctx context.Context) (signalbox.Lease, error)
	TryLock(ctx context.Context) (signalbox.Lease, error)
	Check() error
	// Place returns where the lock is in the order in which members are acquired.
	Place() signalbox.Place
}

// Lock is several locks as one: all of them, or none. It holds nothing itself: the lease does. It is
// safe for concurrent use. New makes one; the zero Lock is of no use.
type Lock struct {
	members   []orderedMember   // the locks, each once, by session and in the order of all locks
	bySession [][]orderedMember // the members of each session
	memberOf  []int             // the index in members of each argument of New
	arguments []Member          // the arguments of New
	err       error             // why the members make no lock; the error of every call
}

// orderedMember is a member and its position in the order of all locks.
type orderedMember struct {
	Member

	position session.Place
	index    int // the member's index in members
}

// New returns all members as one lock. It sends nothing and never fails: if a member is not valid,
// every call returns the error, and so does Check. The order of the members does not matter.
//
// A lock that is named twice counts once, with the options of the first. If it is named for reading and
// for writing, it is acquired for writing, which lets its holder read. Members may belong to different
// sessions, of one server or of several.
func New(members ...Member) *Lock {
	l := &Lock{arguments: slices.Clone(members), memberOf: make([]int, len(members))}
	for i, m := range members {
		l.err = errs.Join(l.err, l.add(i, m))
	}
	if l.validMembers() == nil {
		l.sortMembers()
	}
	return l
}

// add adds argument i of New to the members.
func (l *Lock) add(i int, m Member) error {
	if m == nil {
		return fmt.Errorf("%w: member %d is nil", errs.ErrBadOption, i)
	}
	position := session.PlaceHandle(m.Place()).Place()
	if position.Session == nil {
		return cmp.Or(m.Check(), fmt.Errorf("%w: member %d has no place", errs.ErrBadOption, i))
	}
	known := slices.IndexFunc(l.members, func(o orderedMember) bool { return session.Same(o.position, position) })
	switch {
	case known < 0:
		l.memberOf[i] = len(l.members)
		l.members = append(l.members, orderedMember{m, position, len(l.members)})
		return nil
	case position.Access == session.PermitAccess || l.members[known].position.Access == session.PermitAccess:
		return fmt.Errorf("%w: member %q is given twice: ask once for as much as is wanted", errs.ErrBadOption, position.Name)
	case position.Access == session.ExclusiveAccess && l.members[known].position.Access == session.SharedAccess:
		l.members[known].Member, l.members[known].position = m, position
	}
	l.memberOf[i] = known
	return nil
}

// sortMembers puts the members in the order in which they are acquired. Sessions are ordered by their ids, which only this
// process knows, so that order holds for its goroutines alone.
func (l *Lock) sortMembers() {
	slices.SortFunc(l.members, func(a, b orderedMember) int {
		if a.position.Session != b.position.Session {
			return cmp.Compare(a.position.Session.ID(), b.position.Session.ID())
		}
		return session.Compare(a.position, b.position)
	})
	moved := make([]int, len(l.members))
	for i := range l.members {
		moved[l.members[i].index] = i
		l.members[i].index = i
	}
	for i, was := range l.memberOf {
		l.memberOf[i] = moved[was]
	}
	for begin, i := 0, 1; i <= len(l.members); i++ {
		if i == len(l.members) || l.members[i].position.Session != l.members[begin].position.Session {
			l.bySession = append(l.bySession, l.members[begin:i])
			begin = i
		}
	}
}

// validMembers returns why the members make no lock, or nil.
func (l *Lock) validMembers() error {
	if l == nil || len(l.arguments) == 0 {
		return fmt.Errorf("%w: no members", errs.ErrBadOption)
	}
	return l.err
}

// Check returns what is wrong with the members, or nil. It sends nothing.
func (l *Lock) Check() error {
	err := l.validMembers()
	if err != nil {
		return explain("check", err)
	}
	for _, m := range l.arguments {
		err = errs.Join(err, m.Check())
	}
	return err
}

// Order returns the names of the members in the order in which Lock acquires them: by the cluster
// slot of the key and then by the key, even without a cluster. A program that acquires several of
// the same locks by other means, such as another client, must name them in this order.
//
// A name that was given twice is returned once. Names are grouped by session; the order of the
// sessions means nothing to another process. Order returns nil if the members make no lock; see
// Check.
func (l *Lock) Order() []string {
	if l.validMembers() != nil {
		return nil
	}
	names := make([]string, len(l.members))
	for i := range l.members {
		names[i] = l.members[i].position.Name
	}
	return names
}

// Lock acquires all members. It blocks until it holds them all or ctx ends. ctx bounds the waiting, not
// the hold: the lease does not end with ctx.
//
// If ctx carries leases (Lease.Enter) of this lock, of another one that shares members with it, or of a
// member itself, those members are entered again without a round trip, and the others are acquired. A
// caller that acquires further members in this way acquires them out of order, so two such callers can
// wait for each other.
//
// The error is that of the member that was not acquired. Members that were acquired before it are
// released, in the background if ctx has ended.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), err
}

// TryLock acquires all members if that is possible at once, and none of them otherwise. The error is
// then ErrHeld, of the first member that is held elsewhere, or another error of a member's TryLock.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryLock(ctx)
	return signalbox.Lease(lease), err
}

// Do acquires all members, runs fn and releases them, also if fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: fn can enter each member again with it. The error is
// fn's, joined with Unlock's: ErrLost in it says that fn's work was not protected to its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) (err error) {
	if fn == nil {
		return explain("lock", cmp.Or(l.validate(ctx), acquire.ErrNoFunc))
	}
	lease, err := l.lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errs.Join(err, lease.Unlock()) }()
	return fn(lease.Enter(ctx), signalbox.Lease(lease))
}

// Locker returns the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it carries
// are ignored.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker {
	var s *session.Session
	if l != nil && len(l.members) > 0 {
		s = l.members[0].position.Session
	}
	return (*signalbox.Locker)(hold.NewSyncLocker(ctx, func(err error) { s.Logs.Retried(observe.Labels{}, err) }, l.lock))
}

// validate returns why nothing can be acquired, or nil.
func (l *Lock) validate(ctx context.Context) error {
	err := l.validMembers()
	if err == nil && ctx == nil {
		err = fmt.Errorf("%w: the context is nil", errs.ErrBadOption)
	}
	return err
}

// Tokens returns the fencing token of each member, in the order of the arguments of New. It returns nil
// for a lease that is not of a multilock.
func Tokens(lease signalbox.Lease) []uint64 {
	h, ok := hold.Lease(lease).Owner().(*memberHolds)
	if !ok {
		return nil
	}
	tokens := make([]uint64, len(h.lock.memberOf))
	for i, at := range h.lock.memberOf {
		tokens[i] = h.leases[at].Token()
	}
	return tokens
}

func explain(op string, err error) error { return explainFor(op, "", err) }

// explainFor gives an error of a member the operation and the name, unless it has them.
func explainFor(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var explained *signalbox.OpError
	if errors.As(err, &explained) {
		return err
	}
	return &signalbox.OpError{Op: op, Name: name, Err: err}
}
