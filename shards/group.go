// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Group is one group of shards, as one session sees it. It is safe for concurrent use. New makes one; the zero
// Group is of no use.
type Group struct {
	base      acquire.Base
	set       Set
	options   session.ShardsSettings
	keys      []string
	ends      string // the key with the ends of the members' leases
	news      string // the channel of the members, without the id of their session
	slot      uint16
	requested string // the set that this member requests: a count, the digest of names, or 0 for none
	registry  *shardRegistry
	warned    atomic.Bool // the log says that the group has another count
}

// New returns the group name of the session, which divides set. It sends nothing and never fails: if the name, the
// set or an option is not valid, every call returns the error, and so does Check. Its options are Weight, Limit,
// Value, RebalanceDelay, MaxMoves, DrainLimit, Retry, signalbox.WithRenewedLease (the lease of a member, from MinLease on),
// signalbox.WithClass and signalbox.WithLayout(signalbox.Native()); any other option is ErrBadOption.
//
// Groups, locks and elections of one name do not exclude each other.
func New(s *signalbox.Session, name string, set Set, options ...signalbox.LockOption) *Group {
	var resolved session.LockSettings
	g := &Group{set: set}
	g.base = acquire.Make(s, name, &proto.Shards, append(slices.Clip(options), end(&resolved)))
	if err := errs.Join(g.base.Err, set.check()); err != nil {
		g.base.Fail(err)
		return g
	}
	g.options = resolved.Shards
	n := g.base.Names
	g.keys, g.news = n.ShardKeys(), n.ShardNews()
	g.ends = g.keys[2]
	g.slot = g.base.Session.Runner.Slot(g.keys[0])
	g.requested = set.requested()
	g.registry = registryOf(g.base.Session)
	return g
}

// Check returns what is wrong with the name, the set, the options or the session, or nil. It sends nothing.
func (g *Group) Check() error { return g.root().Check() }

// Join makes the caller a member of the group, and returns when the server knows it. The member owns no shard yet. ctx
// bounds the call, not the membership: call Member.Leave when it is to end. While the server is away, or refuses for now,
// Join waits. Otherwise its error is the context's, ErrClosed, ErrWrongKind, ErrDenied, or *MismatchError.
//
// Run is simpler, and calls a function for each shard.
func (g *Group) Join(ctx context.Context) (*Member, error) {
	m, err := g.join(ctx)
	return m, g.root().Explain("join", err)
}

func (g *Group) join(ctx context.Context) (*Member, error) {
	if err := g.root().Ready(ctx); err != nil {
		return nil, err
	}
	if err := g.base.Session.Begin(); err != nil {
		return nil, err
	}
	m := newMember(ctx, g)
	m.start()
	select {
	case <-m.joined:
		return m, nil
	case <-m.done:
		return nil, m.Err()
	case <-ctx.Done():
	}
	err := errs.Join(errs.Ended(ctx), m.failure())
	m.leave(errs.Ended(ctx))
	return nil, err
}

// root returns the base of the group. A nil Group has an empty one, whose calls return ErrBadOption.
func (g *Group) root() *acquire.Base {
	if g == nil {
		return new(acquire.Base)
	}
	return &g.base
}
