// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Lock is one name on several servers, as one process sees it. It holds nothing itself: what is held is the
// lease. Locks of one name over the same sessions, in whatever order, are the same lock. It is safe for concurrent
// use. New makes one; the zero Lock is of no use.
type Lock struct {
	base       acquire.Base
	group      *sessionGroup
	members    []*session.Session // the sessions in the order of New, by which errors number them
	keys       []string           // the keys of an acquire
	lifeMS     string             // the life that an acquire gives
	greatestUS string             // the longest lease that anybody has for the name
	isGreatest bool               // no lease for the name is longer than this lock's

	last atomic.Pointer[ballot] // the newest ballot of this Lock
}

// New returns the lock name over the servers of these sessions: three, five or another odd number,
// each a server of its own that shares nothing with the others. It sends nothing and never fails:
// if something is not valid, every call returns the error, and so does Check. A session is not valid
// if it is nil, is there twice, or is one of a cluster. All sessions must have one prefix, and all or
// no sessions hash names. WithReplicas is not valid, since replicas do not count here. The lock
// starts from the defaults of the first session.
func New(sessions []*signalbox.Session, name string, options ...signalbox.LockOption) *Lock {
	l := &Lock{members: make([]*session.Session, len(sessions))}
	for i, s := range sessions {
		l.members[i] = (*session.Handle)(s).Session()
	}
	if err := checkMembers(l.members); err != nil {
		l.base.Name = displayName(l.members, name)
		l.base.Fail(err)
		return l
	}
	l.base = acquire.Make(sessions[0], name, &proto.Redlock, options)
	l.base.Name = displayName(l.members, name)
	longest, err := greatestLease(l.base.Terms, l.base.Quorum)
	if err = errs.Join(l.base.Err, err); err == nil {
		err = l.checkName(name)
	}
	if err != nil {
		l.base.Fail(err)
		return l
	}
	l.group = groupOf(l.members)
	l.keys = []string{l.base.Names.Holder, proto.Epoch(l.base.Session.Settings.Prefix), l.base.Names.Fence()}
	l.lifeMS = wire.Milliseconds(l.base.Terms.First())
	l.greatestUS = strconv.FormatInt(longest.Microseconds(), 10)
	l.isGreatest = longest == l.base.Terms.Lease
	return l
}

// displayName returns what errors call name: the digest of name if any of the sessions hashes names.
func displayName(members []*session.Session, name string) string {
	for _, m := range members {
		if digest := m.DisplayName(name); digest != name {
			return digest
		}
	}
	return name
}

// checkMembers says why a quorum cannot be made of these sessions, or nil.
func checkMembers(members []*session.Session) error {
	n := len(members)
	if n < 3 || n%2 == 0 {
		return fmt.Errorf("%w: %d sessions: a quorum needs an odd number, three at the least", errs.ErrBadOption, n)
	}
	seen := make(map[*session.Session]int, n)
	for i, m := range members {
		if err := m.Valid(); err != nil {
			return fmt.Errorf("session %d of %d: %w", i+1, n, err)
		}
		if first, twice := seen[m]; twice {
			return fmt.Errorf("%w: sessions %d and %d are one", errs.ErrBadOption, first+1, i+1)
		}
		if err := checkSingle(m, i, n); err != nil {
			return err
		}
		seen[m] = i
	}
	return nil
}

// checkSingle says that a session is one of a cluster, or nil: also if that is not known before its first connection.
func checkSingle(m *session.Session, i, n int) error {
	if !m.Runner.Clustered() {
		return nil
	}
	return fmt.Errorf("%w: session %d of %d is one of a cluster: a quorum is made of single servers", errs.ErrBadOption, i+1, n)
}

// checkName says why the sessions do not agree on what name is, or nil.
func (l *Lock) checkName(name string) error {
	for i, m := range l.members {
		if own, err := m.Names(proto.Native(), name); err != nil || own != l.base.Names {
			return fmt.Errorf("%w: session %d of %d has another prefix than the first, or hashes names where that does not", errs.ErrBadOption, i+1, len(l.members))
		}
	}
	return nil
}

// Check returns what is wrong with the sessions, the name or the options, or nil. It sends nothing.
func (l *Lock) Check() error {
	err := l.root().CheckArgs()
	if err == nil {
		err = l.ready()
	}
	return l.root().Explain("check", err)
}

// Lock acquires the lock. It blocks until the lock is acquired or ctx ends. It asks all servers at
// once, and returns as soon as a majority has granted the lock. ctx bounds the waiting, not the hold:
// the lease does not end with ctx.
//
// If ctx carries a lease of this lock (Lease.Enter), Lock enters it again: at once, without a round
// trip, with the token and the terms of the first entry. If that lease has ended, Lock returns ErrLost
// or ErrReleased, and never acquires anew.
//
// The error is the context's, joined with ErrHeld if the lock, or a part of it, was held by the last
// replies, and with the errors of servers if too few of them were left for a majority. It is ErrClosed,
// ErrBadName or ErrBadOption at once, and ErrWrongKind, ErrDenied, ErrUnsupported or ErrOldServer if so many servers
// return it that no majority is left. While servers are away, or refuse for now, Lock waits.
func (l *Lock) Lock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.lock(ctx)
	return signalbox.Lease(lease), l.root().Explain("lock", err)
}

// TryLock acquires the lock if that is possible at once, in one round trip. It returns ErrHeld if it
// is held, or if others try at the same time and none of them has a majority. If failed servers leave
// no majority, it returns their errors, such as ErrRefused from servers that lost their data lately,
// or ErrNoReply from servers that were silent for a tenth of the lease, or for a second if that is
// less. While this process holds or waits for the lock over these sessions, TryLock fails without a
// round trip.
func (l *Lock) TryLock(ctx context.Context) (signalbox.Lease, error) {
	lease, err := l.tryLock(ctx)
	return signalbox.Lease(lease), l.root().Explain("try lock", err)
}

// Do acquires the lock, runs fn and releases the lock, also if fn panics or ends its goroutine. fn's
// context ends with the lease, and carries it: fn can enter the lock again with it. The error is fn's,
// joined with Unlock's: ErrLost in it says that fn's work was not protected to its end.
func (l *Lock) Do(ctx context.Context, fn func(ctx context.Context, lease signalbox.Lease) error) error {
	return l.root().Do(ctx, l.lock, fn)
}

// Locker returns the lock as a sync.Locker. ctx bounds every wait of its Lock; leases that it carries
// are ignored.
func (l *Lock) Locker(ctx context.Context) *signalbox.Locker { return l.root().Locker(ctx, l.lock) }

// root returns the base of the lock. A nil Lock has an empty one, whose calls return ErrBadOption.
func (l *Lock) root() *acquire.Base {
	if l == nil {
		return new(acquire.Base)
	}
	return &l.base
}

// enter returns a lease by the one that ctx carries, if it does, and whether it does.
func (l *Lock) enter(ctx context.Context) (lease hold.Lease, carried bool, err error) {
	if err = l.root().CheckArgs(); err != nil {
		return hold.Lease{}, false, err
	}
	return l.base.Enter(ctx, &l.group.scope)
}

// ready returns why the sessions can do nothing, or nil.
func (l *Lock) ready() error {
	for i, m := range l.members {
		if err := cmp.Or(m.Ready(), checkSingle(m, i, len(l.members))); err != nil {
			return err
		}
	}
	return nil
}

// withNumber gives an error the number of its server.
func (l *Lock) withNumber(i int, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server %d of %d: %w", i+1, len(l.members), err)
}

// Fenced makes tokens that are ordered: each holder has a greater token than every earlier holder. The
// servers' clocks may differ by less than a day for that, and a server that remembers the last token
// must be among those that grant the next one. A Lock takes one more round trip, in which a majority
// stores the token. All processes must use Fenced for the name: tokens without it are not stored.
func Fenced() signalbox.LockOption {
	return session.Option(proto.OptionFenced, nil, func(l *session.LockSettings) { l.Quorum.Fenced = true })
}

// GreatestLease says how long the longest lease of any process for the name is, if that is not this
// lock's own, for instance while a new length is rolled out. A server that lost its data does not grant
// the name for that long, and gets a shorter lease back only then. d is from the lock's own lease to
// 24 h.
func GreatestLease(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionGreatestLease, session.CheckDuration("a greatest lease", d), func(l *session.LockSettings) {
		l.Quorum.Greatest = d
	})
}

// greatestLease returns the longest lease that anybody has for a name, by the options of one lock.
func greatestLease(set session.LeaseTerms, q session.QuorumSettings) (time.Duration, error) {
	switch {
	case q.Greatest == 0:
		return set.Lease, nil
	case q.Greatest < set.Lease:
		return 0, fmt.Errorf("%w: a greatest lease of %v: the lock's own is longer, %v", signalbox.ErrBadOption, q.Greatest, set.Lease)
	}
	return q.Greatest, nil
}
