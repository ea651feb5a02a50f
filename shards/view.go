// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// State is what becomes of a shard.
type State uint8

// The states of a shard.
const (
	// Unowned: the shard has no owner, and the next member with room gets it.
	Unowned State = iota
	// Owned: a member owns the shard.
	Owned
	// Draining: its owner was asked for the shard, and still has it.
	Draining
	// Waiting: the shard has no owner for some time on purpose: its owners died, or gave it away.
	Waiting
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Owned:
		return "owned"
	case Draining:
		return "draining"
	case Waiting:
		return "waiting"
	default:
		return "unowned"
	}
}

// ShardInfo describes a shard and its owner, as the server saw them at one moment. It is for routing requests and for people; only a
// Shard proves ownership.
type ShardInfo struct {
	// Name is the name of the shard, and State what becomes of it.
	Name  string
	State State
	// Token is the fencing token of the ownership, and Since when it began. If the shard has no owner, Since is when the last one ended, or
	// when the shard came into the set if it never had one. Both by the server's clock.
	Token uint64
	Since time.Time
	// DrainingSince is when the owner was asked for the shard; the zero time if it was not.
	DrainingSince time.Time
	// Losses is how many owners in a row lost their lease while they owned the shard.
	Losses int
	// Value, Label and Session are those of the owner; "" if it has no owner.
	Value, Label, Session string
}

// MemberInfo describes a member, as the server saw it at one moment.
type MemberInfo struct {
	// Value, Label and Session are what the member and its session have set, and the ID of the session.
	Value, Label, Session string
	// Weight is 0 if the member pauses. Limit is less than that of the option while the member does not take shards up.
	Weight, Limit int
	// Owned is how many shards it owns, those included that it was asked for.
	Owned int
	// Leaving says that it takes no more shards.
	Leaving bool

	number string
}

// View is what the server knows of a group at one moment. It is never written to.
type View struct {
	// Count is the number of shards. Index returns which of them a key belongs to, if the set has no Names.
	Count int
	// Members are the members, by the time they joined.
	Members []MemberInfo
	// Unowned is how many shards have no owner, and Draining how many owners were asked for.
	Unowned, Draining int

	named   bool
	rows    map[string]row
	members map[string]int       // the index in Members, by number
	began   wire.Stamp           // the stamp since which a shard without a row has no owner
	at      time.Time            // the server's time
	ahead   time.Duration        // by how much stamps are ahead of that, since the server's clock was set back
	missing int                  // how many names the server has lost that no member has set again
	ended   map[string]time.Time // when the leases of members ended whose shards no script has taken yet: those have no owner
}

// row is a shard at the server.
type row struct {
	version         wire.Stamp
	stamp           wire.Stamp // that of the token, or since when the shard has no owner
	owner, promised string
	state           byte
	losses          int
}

// Names returns the names of the shards, sorted, of Count in their order.
func (v *View) Names() []string {
	if v == nil {
		return nil
	}
	if v.named {
		return slices.Sorted(maps.Keys(v.rows))
	}
	names := make([]string, max(0, min(v.Count, MaxShards))) // of a View that a test made, too
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}

// Owner returns the owner of a shard, and whether there is such a shard. The name of a shard of Count is its index, in decimal.
// For a key see OwnerOf.
func (v *View) Owner(name string) (ShardInfo, bool) {
	if v == nil {
		return ShardInfo{}, false
	}
	r, known := v.rows[name]
	if !known && (v.named || indexOf(name) < 0 || indexOf(name) >= v.Count) {
		return ShardInfo{}, false
	}
	return v.owner(name, r), true
}

// OwnerOf returns the owner of the shard that a key belongs to, in a set of Count. It returns the zero ShardInfo if the set has names.
func (v *View) OwnerOf(key string) ShardInfo {
	if v == nil || v.named || v.Count < 1 {
		return ShardInfo{}
	}
	o, _ := v.Owner(strconv.Itoa(Index(key, v.Count)))
	return o
}

// owner describes a shard; the zero row is one that never had an owner.
func (v *View) owner(name string, r row) ShardInfo {
	o := ShardInfo{Name: name, Losses: r.losses, Since: v.time(cmp.Or(r.stamp, v.began))}
	switch r.state {
	case stateOwned:
		o.State = Owned
	case stateMoves, stateRemoved, stateResized:
		o.State, o.DrainingSince = Draining, v.time(r.version)
	case stateWaits:
		o.State = Waiting
	}
	if end, is := v.ended[r.owner]; is && (o.State == Owned || o.State == Draining) {
		return ShardInfo{Name: name, Losses: r.losses, Since: end}
	}
	if i, is := v.members[r.owner]; is && o.State != Unowned && o.State != Waiting {
		m := v.Members[i]
		o.Token, o.Value, o.Label, o.Session = r.stamp.Token(), m.Value, m.Label, m.Session
	}
	return o
}

// time returns the time of a stamp by the server's clock, as it is now.
func (v *View) time(s wire.Stamp) time.Time { return s.Time().Add(-v.ahead) }

// memberOf returns the number of a member of a session, or "".
func (v *View) memberOf(session string) string {
	for _, m := range slices.Backward(v.Members) { // the latest: an older one may be lost
		if m.Session == session && !m.Leaving {
			return m.number
		}
	}
	return ""
}

// View returns what the server knows of the group, or signalbox.ErrNotHeld if it does not know the group. One round trip for 512
// shards, without a second try.
func (g *Group) View(ctx context.Context) (*View, error) {
	v, err := g.view(ctx)
	return v, g.root().Explain("view", err)
}

func (g *Group) view(ctx context.Context) (*View, error) {
	if err := g.root().Ready(ctx); err != nil {
		return nil, err
	}
	table := newTable()
	for {
		reply, err := g.base.Session.Runner.Run(ctx, g.viewCall(table, ""))
		if err == nil {
			err = g.observe(proto.ReadShardsHead(&reply))
		}
		if err != nil {
			return nil, acquire.CutShort(ctx, err)
		}
		more, err := table.apply(&reply)
		if err != nil {
			return nil, err
		}
		if !more {
			return table.view(), nil
		}
	}
}

// Owner returns the owner of a shard, as the server knows it. One round trip, without a second try. It returns
// signalbox.ErrNotHeld if there is no such shard.
func (g *Group) Owner(ctx context.Context, name string) (ShardInfo, error) {
	o, err := g.owner(ctx, name)
	return o, g.root().Explain("owner", acquire.CutShort(ctx, err))
}

func (g *Group) owner(ctx context.Context, name string) (ShardInfo, error) {
	if err := g.root().Ready(ctx); err != nil {
		return ShardInfo{}, err
	}
	if err := checkName(name); err != nil {
		return ShardInfo{}, err
	}
	table := newTable()
	reply, err := g.base.Session.Runner.Run(ctx, g.viewCall(table, name))
	if err == nil {
		err = g.observe(proto.ReadShardsHead(&reply))
	}
	if err != nil {
		return ShardInfo{}, err
	}
	if _, err = table.apply(&reply); err != nil {
		return ShardInfo{}, err
	}
	o, is := table.view().Owner(name)
	if !is {
		return ShardInfo{}, fmt.Errorf("%w: there is no shard %q", errs.ErrNotHeld, name)
	}
	return o, nil
}

// viewCall returns the call that asks for what the table has not seen yet, or for one shard.
func (g *Group) viewCall(t *table, name string) wire.Call {
	return g.call(scripts.ShardsRead, proto.ShardsRead{Seen: t.version, Began: t.began, MembersSeen: t.membersVersion, Shard: name}.AppendTo(nil))
}
