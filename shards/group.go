// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
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
// Value, RebalanceDelay, Moves, DrainLimit, Retry, signalbox.WithRenewedLease (the lease of a member, from MinLease on),
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

const (
	// MaxShards is the greatest number of shards of a group.
	MaxShards = 65_536
	// MaxName is the length of the longest name of a shard, in bytes.
	MaxName = 64
)

// Set is what a group divides. Count and Names make one; the zero Set is not valid.
//
// The set is kept at the server: the one passed to New counts only if the group does not exist yet. A member
// with another set joins the group that exists. The set changes when all members of the group were made with
// the same other set, such as after a rolling change, or by Resize and Sync. Members without names take the
// names that there are. If the server loses its data, the members set the count again, and the names of the
// shards that had owners. The log says so; a Sync or Resize that returned less than 2 s before that may be undone.
type Set struct {
	count int
	names []string
	exact bool
	err   error
}

// Count is the set of the shards 0 to n-1. n is from 1 to MaxShards.
func Count(n int) Set {
	if n < 1 || n > MaxShards {
		return Set{err: fmt.Errorf("%w: %d shards: it must be from 1 to %d", errs.ErrBadOption, n, MaxShards)}
	}
	return Set{count: n}
}

// Names is a set of shards with names of their own. Each has 1 to MaxName bytes; a name that is listed twice
// is one shard. It may be empty at first.
func Names(names ...string) Set {
	listed, err := distinct(names)
	return Set{names: listed, err: err}
}

// Exact returns s for members that must not join a group with another count: they fail with *MismatchError.
func Exact(s Set) Set {
	if s.err == nil && s.count == 0 {
		s.err = fmt.Errorf("%w: Exact is for a set that Count made", errs.ErrBadOption)
	}
	s.exact = true
	return s
}

// warnOfCount logs once that a member joined a group of another count than that of its set.
func (g *Group) warnOfCount(count int) {
	if g.set.count > 0 && count > 0 && count != g.set.count && !g.warned.Swap(true) {
		g.base.Session.Logs.OtherCount(g.base.Labels(), count, g.set.count)
	}
}

// check returns what is wrong with the set, or nil.
func (s Set) check() error {
	if s.err == nil && s.count == 0 && s.names == nil {
		return fmt.Errorf("%w: the set is empty: Count and Names make one", errs.ErrBadOption)
	}
	return s.err
}

// requested returns what a member says of the set: its count, the digest of its names, or 0 if it lists no names.
func (s Set) requested() string {
	if len(s.names) == 0 {
		return strconv.Itoa(s.count)
	}
	return digestOf(s.names)
}

// distinct returns the names without repetitions, and never nil.
func distinct(names []string) ([]string, error) {
	seen := make(map[string]struct{}, len(names))
	listed := make([]string, 0, len(names))
	for _, name := range names {
		if err := checkName(name); err != nil {
			return nil, err
		}
		if _, twice := seen[name]; !twice {
			seen[name] = struct{}{}
			listed = append(listed, name)
		}
	}
	if len(listed) > MaxShards {
		return nil, fmt.Errorf("%w: %d names: %d are allowed", errs.ErrBadOption, len(listed), MaxShards)
	}
	return listed, nil
}

func checkName(name string) error {
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("%w: the shard name %.80q has %d bytes: it must have 1 to %d", errs.ErrBadOption, name, len(name), MaxName)
	}
	return nil
}

// Index returns which of n shards a key belongs to, from 0 to n-1. It is the same in every release and
// language: the first four bytes of the key's SHA-256, as a number with the greatest byte first, modulo n.
// It panics if n is less than 1.
func Index(key string, n int) int {
	if n < 1 {
		panic(fmt.Errorf("signalbox: shards.Index of %d shards: it must be 1 or more", n)) //nolint:forbidigo // as slices do
	}
	digest := sha256.Sum256([]byte(key))
	return int(uint64(binary.BigEndian.Uint32(digest[:4])) % uint64(n)) //nolint:gosec // less than n
}

// indexOf returns the index that a name of a shard of Count is, or -1.
func indexOf(name string) int {
	if len(name) > 1 && name[0] == '0' {
		return -1
	}
	i, err := strconv.ParseUint(name, 10, 16)
	if err != nil {
		return -1
	}
	return int(i)
}

// MismatchError says that a group has another count than a member insists on. It matches
// signalbox.ErrCapacity.
type MismatchError struct {
	// Want is the count of the member's Set, and Have that of the group. 0 stands for names.
	Want, Have int
}

// Error implements error.
func (e *MismatchError) Error() string {
	if e == nil {
		return "<nil>"
	}
	say := func(n int) string {
		if n == 0 {
			return "named shards"
		}
		return strconv.Itoa(n) + " shards"
	}
	return "the group has " + say(e.Have) + ", and not " + say(e.Want)
}

// Unwrap returns signalbox.ErrCapacity.
func (*MismatchError) Unwrap() error { return errs.ErrCapacity }
