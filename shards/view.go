// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
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
	return g.call(proto.ShardsReadScript, proto.ShardsRead{Seen: t.version, Began: t.began, MembersSeen: t.membersVersion, Shard: name}.AppendTo(nil))
}

// silence is how long the server may be silent before observers get the error.
const silence = DefaultLease

// Watch yields the group, and then each change of it, until ctx ends. The first element describes a moment after the loop
// began. Changes that follow each other within a poll are one element.
//
// An observer polls once a second, and after messages for members of its session. All observers of a session share the
// polls, which return what has changed.
//
// An error says that the group is not known. If waiting can help, the sequence continues: ErrNotHeld says that there is no such
// group yet, and after 15 s without a reply of the server it yields one error that says so. Otherwise the error is the last
// element: the context's, ErrClosed, ErrBadName, ErrBadOption, ErrWrongKind, ErrDenied, or the server's own words.
func (g *Group) Watch(ctx context.Context) iter.Seq2[*View, error] {
	return func(yield func(*View, error) bool) {
		if err := g.watch(ctx, yield); err != nil {
			yield(nil, g.root().Explain("watch", err))
		}
	}
}

// watch yields all elements but the last, and returns the error of that, or nil if the caller wants no more.
func (g *Group) watch(ctx context.Context, yield func(*View, error) bool) error {
	if err := g.root().Await(ctx); err != nil {
		return err
	}
	g.base.Session.HandshakeInCluster(ctx, g.keys[0])
	w, from, err := g.registry.join(g)
	if err != nil {
		return err
	}
	defer w.subject.Leave()
	return w.latest.Observe(ctx, &w.subject, from, func(view *View, err error) bool {
		return yield(view, g.base.Explain("watch", err))
	})
}

// join adds an observer, and returns the number of the first poll that is sent after this call.
func (r *shardRegistry) join(g *Group) (w *watchedGroup, from uint64, err error) {
	channel := notify.Channel{Name: g.news + g.base.Session.ID(), Types: notify.ShardedChannel}
	w, err = notify.Join(&r.Registry, g.keys[0], channel, func() *watchedGroup {
		return &watchedGroup{group: g, table: newTable(), latest: notify.NewLatest[*View](silence)}
	}, func(w *watchedGroup) (poll bool) {
		from = w.subject.NextPollLocked()
		return true
	})
	return w, from, err
}

// watchedGroup is one group that goroutines of this session observe. The lock of its registry guards the fields from table on.
type watchedGroup struct {
	subject notify.Subject
	group   *Group // the first that was observed; others of that name are alike

	table   *table
	latest  notify.Latest[*View]
	applied uint64 // the number of the last poll whose reply is in the table
}

// Subject implements notify.Watched.
func (w *watchedGroup) Subject() *notify.Subject { return &w.subject }

// AppendPoll implements notify.Watched.
func (w *watchedGroup) AppendPoll(calls []wire.Call) []wire.Call {
	if w.latest.IsFinalLocked() {
		return calls
	}
	return append(calls, w.group.viewCall(w.table, ""))
}

// OnReply implements notify.Watched. A reply says what has changed since the version that its poll knew. If the reply to a later poll
// was handled before, that said it all.
func (w *watchedGroup) OnReply(p notify.Poll, replies []wire.Outcome) (again bool, err error) {
	if err := replies[0].Err; err != nil {
		return false, err
	}
	if p.Number <= w.applied {
		return false, nil
	}
	reply := &replies[0].Reply
	if err := w.group.observe(proto.ReadShardsHead(reply)); err != nil {
		return false, err
	}
	more, err := w.table.apply(reply)
	w.latest.ReplyLocked(p)
	w.applied = p.Number
	switch {
	case err != nil && reply.Code() == wire.NotDone:
		w.latest.ShowLocked(p, nil, err) // it may come
		return false, nil
	case err != nil:
		return false, err
	case more:
		return true, nil
	}
	view := w.latest.ValueLocked()
	if view == nil || w.table.changed {
		view = w.table.view()
	}
	w.latest.ShowLocked(p, view, nil)
	return false, nil
}

// OnFailure implements notify.Watched.
func (w *watchedGroup) OnFailure(p notify.Poll, f notify.Failure) { w.latest.FailLocked(p, f) }

// OnMessage implements notify.Watched. A message is a hint: the server is asked.
func (*watchedGroup) OnMessage(string) (poll bool) { return true }

// OnClose implements notify.Watched.
func (w *watchedGroup) OnClose(err error) { w.latest.CloseLocked(err) }

const (
	// unownedFor is for how much longer than a lease a shard may be without an owner before Health says so.
	unownedFor = 3 * time.Second
	// drainsFor is how long a shard may drain before Health says so.
	drainsFor = time.Minute
	// maxListed is how many shards an error of Health names.
	maxListed = 10
)

// Health asks the server for the group, and returns nil if each shard has an owner, or had one less than a lease and
// 3 s ago, no shard drains for more than a minute, and the server has lost no names. Its error names such shards, the first of each sort. It matches ErrNotHeld
// if there are shards without an owner, and signalbox.ErrHeld if some are not released. It also matches ErrNotHeld while a member of
// this session takes less than its share, since it released shards that it did not take up. Other errors are those of View.
func (g *Group) Health(ctx context.Context) error {
	return g.root().Explain("health", g.health(ctx))
}

func (g *Group) health(ctx context.Context) error {
	v, err := g.view(ctx)
	if err != nil {
		return err
	}
	free, drains, unread := []string(nil), []string(nil), g.unread()
	for _, name := range v.Names() {
		switch o, _ := v.Owner(name); {
		case o.State == Draining && v.since(o.DrainingSince) > drainsFor:
			drains = append(drains, name)
		case (o.State == Unowned || o.State == Waiting) && v.since(o.Since) > g.base.Terms.Lease+unownedFor:
			free = append(free, name)
		}
	}
	var lost error
	if v.missing > 0 {
		lost = fmt.Errorf("%w: the server lost the data of the group, and %d names that had no owner: call Sync with all names", errs.ErrNotHeld, v.missing)
	}
	return errs.Join(lost, listed(errs.ErrNotHeld, "have no owner", free), listed(errs.ErrHeld, "were asked for and are not released", drains),
		listed(errs.ErrNotHeld, "were released by a member of this session, since no goroutine reads its changes", unread))
}

// listed returns the error of these shards, or nil for no shards.
func listed(err error, what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d shards %s: %q", err, len(names), what, names[:min(len(names), maxListed)])
}
