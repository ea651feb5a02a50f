// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Sync makes names the names of the group: those that are new become shards, those that are missing leave the set, and
// their owners are asked for them with ErrRemoved. Others do not move for it. Call it with the whole set, from one place,
// such as the owner of one of the shards: of several calls at once that one counts which began last. It is one request if
// nothing differs, and one for 128 names otherwise.
//
// After an error some of the changes may be made; the call is safe to repeat. While the server is away, or refuses for
// now, Sync waits. It returns signalbox.ErrNotHeld if the server does not know the group.
func (g *Group) Sync(ctx context.Context, names []string) error {
	return g.root().Explain("sync", g.sync(ctx, names))
}

func (g *Group) sync(ctx context.Context, names []string) error {
	if err := g.root().Ready(ctx); err != nil {
		return err
	}
	listed, err := distinct(names)
	if err != nil {
		return err
	}
	s := newSyncer(g, listed)
	for whole := false; !whole; {
		err := g.repeat(ctx, func() (err error) {
			whole, err = s.step(func(call wire.Call) (wire.Reply, bool, error) { return g.request(ctx, call) })
			return err
		})
		if other := (*MismatchError)(nil); errors.As(err, &other) {
			other.Want = 0 // names, also if the set of this Group is a Count
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// syncer sends the pages of a set of names.
type syncer struct {
	group  *Group
	id     string
	digest string   // of all names; of names that come, when a caller gave the group their set
	all    []string // all names, sorted
	names  []string // those of the pages that are not sent yet
	after  string   // the last name of the page before
	adds   bool     // the names come, and no other name leaves
	since  string   // what a caller lists after this stamp counts, and not these names; "" if a caller lists them
	begun  string   // when the round began, as the server has replied to its first page
}

func newSyncer(g *Group, names []string) *syncer {
	s := &syncer{group: g, digest: digestOf(names), all: slices.Sorted(slices.Values(names))}
	s.begin()
	return s
}

// begin begins a round over all names. Its id is later than those of earlier rounds of the session.
func (s *syncer) begin() {
	const unique = 9
	session := s.group.base.Session
	s.id = fmt.Sprintf("%s%010d%s", session.ID(), s.group.registry.rounds.Add(1), session.NewTicket()[proto.HoldSize-unique:])
	s.names, s.after = s.all, ""
}

// digestOf returns the digest of names, in whatever order they are.
func digestOf(names []string) string {
	hash := sha256.New()
	for _, name := range slices.Sorted(slices.Values(names)) {
		hash.Write(appendText(nil, name))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// restore sets the names again that the member had, if the server has lost the group, or lost them before and the membership of then
// has ended before they were set.
func (ms *membership) restore(isLost bool) { //nolint:revive // what the server said
	m := ms.member
	m.mu.Lock()
	names, set, isUnsaid := m.mu.lost, m.mu.lostOf, m.mu.unsaid
	m.mu.Unlock()
	if isLost {
		m.group.base.LogFailed(errLostGroup)
	}
	if isLost || isUnsaid {
		ms.addNames(names, set)
	}
}

// lostLocked records names that the member had, or the server has lost. What was recorded before stays with them if earlier says so,
// and no other set was given to the group since: of another one they may have left it.
func (m *Member) lostLocked(names []string, set string, earlier bool) { //nolint:revive // a fact, not a switch
	if earlier && set == m.mu.lostOf {
		names = append(names, m.mu.lost...)
	} else {
		m.mu.unsaid = false
	}
	slices.Sort(names)
	m.mu.lost, m.mu.lostOf = slices.Compact(names), set
}

// syncPage sets the next names of New, or the set that the server has lost. What the server calls wrong is given up.
func (ms *membership) syncPage() error {
	if ms.poller.lostSet != "" {
		return ms.restoreSet()
	}
	whole, err := ms.poller.names.step(ms.send)
	if ms.isGivenUp("the names of the set", err) {
		whole, err = true, nil
	}
	if whole {
		ms.said()
	}
	ms.poller.tries[syncTask].due = timers.Now() // behind what is due by now
	return err
}

// restoreSet sets the set again that the server has lost. The next poll says whether it is there. What the server calls wrong is given up.
func (ms *membership) restoreSet() error {
	m, g, known := ms.member, ms.member.group, ms.poller.lostSet
	ms.poller.lostSet = ""
	g.base.LogFailed(errLostWrites)
	_, _, err := ms.send(g.call(proto.ShardsResizeScript, proto.ShardsResize{
		Known: known, ID: g.base.Session.NewTicket(), NotAfter: g.notAfter(), Publish: g.publish(),
	}.AppendTo(nil)))
	if ms.isGivenUp("the set that it had lost", err) {
		m.mu.Lock()
		m.mu.desired.known, err = "", nil // the next poll says what counts
		m.mu.Unlock()
	}
	return err
}

// isGivenUp reports whether the server calls what was sent wrong, and logs that. It is not sent again.
func (ms *membership) isGivenUp(what string, err error) bool {
	if err == nil || !isWrong(err) {
		return false
	}
	ms.member.group.base.LogFailed(fmt.Errorf("the server calls %s wrong: %w", what, err))
	return true
}

// addNames makes the poller set names again that the server has lost. A caller gave the group the set that had them at that time: if
// one has given it another set since, they do not come. Until they are set, the next membership sets them as well.
func (ms *membership) addNames(names []string, set string) {
	m, s := ms.member, ms.poller.names
	if m.group.set.names == nil || len(names) == 0 || s != nil && !s.adds { // what is on its way replaces the set
		return
	}
	m.mu.Lock()
	m.lostLocked(names, set, m.mu.unsaid)
	m.mu.unsaid = true
	all := m.mu.lost
	m.mu.Unlock()
	s = newSyncer(m.group, all)
	s.adds, s.digest = true, cmp.Or(set, noStamp)
	ms.poller.names = s
}

// said ends what the poller had to say of names: the server has them. After a later membership has joined it may have lost them again.
func (ms *membership) said() {
	if m := ms.member; ms.poller.names.adds {
		m.mu.Lock()
		m.mu.unsaid = m.mu.unsaid && m.mu.current != ms
		m.mu.Unlock()
	}
	ms.poller.names = nil
}

// step sends one page by send, which says whether the server knows the group. It returns true when the set is that of the names.
func (s *syncer) step(send func(wire.Call) (wire.Reply, bool, error)) (whole bool, err error) {
	page, g := s.names[:min(len(s.names), maxSync)], s.group
	var text []byte
	for _, name := range page {
		text = appendText(text, name)
	}
	last, since := proto.Flag(len(page) == len(s.names)), s.since
	switch {
	case s.adds:
		last = "a"
	case s.after != "":
		since = s.begun
	}
	reply, missing, err := send(g.call(proto.ShardsSyncScript, proto.ShardsSync{
		ID: s.id, Digest: s.digest, Since: since, After: s.after, Names: string(text), Last: last, NotAfter: g.notAfter(), Publish: g.publish(),
	}.AppendTo(nil)))
	synced := proto.ReadShardsChanged(&reply)
	switch {
	case err != nil:
		return false, err
	case missing:
		return false, errNoGroup
	case synced.Whole:
		return true, nil
	case synced.Partly:
		return false, nil // the same page again
	case len(page) == len(s.names):
		if !s.adds {
			s.begin() // the server has lost the round, with the group
		}
		return s.adds, nil
	}
	s.names, s.after, s.begun = s.names[len(page):], page[len(page)-1], synced.SetAt
	return false, nil
}

// Resize changes the number of shards of a group of Count to n, from 1 to MaxShards, and returns when it is changed. Every
// shard is asked for, with ErrResized, and no new shard is granted before all old ones are released: so a key never has two
// owners. If ctx ends before that, the change continues. Of several calls at once that one counts which began last; the others
// return when they learn of it. The count of New does not undo it: see Set.
func (g *Group) Resize(ctx context.Context, n int) error {
	return g.root().Explain("resize", g.resize(ctx, n))
}

func (g *Group) resize(ctx context.Context, n int) error {
	if err := g.root().Ready(ctx); err != nil {
		return err
	}
	if err := Count(n).err; err != nil {
		return err
	}
	id := g.base.Session.NewTicket()
	for since := ""; ; {
		left := int64(0)
		err := g.repeat(ctx, func() error {
			reply, missing, err := g.request(ctx, g.call(proto.ShardsResizeScript, proto.ShardsResize{
				Known: since + strconv.Itoa(n), ID: id, NotAfter: g.notAfter(), Publish: g.publish(),
			}.AppendTo(nil)))
			if err == nil && missing {
				err = errNoGroup
			}
			if changed := proto.ReadShardsChanged(&reply); err == nil {
				left, since = changed.Left, changed.SetAt
			}
			return err
		})
		if other := (*MismatchError)(nil); errors.As(err, &other) {
			other.Want = n // and not the names of the set
		}
		if err != nil || left == 0 {
			return err
		}
		g.base.Session.BackOff(ctx, lastBackOff, g.registry.Refused())
	}
}

// lastBackOff is a number of failures after which a pause is as long as it gets: about a second.
const lastBackOff = 10

// Move makes a member of that session own a shard, by hand: the owner is asked for it, and hands it over when its work has
// stopped. session is the ID of a session: of ShardInfo.Session. Nothing keeps the shard there: if the loads are not even
// after that, some shard moves. It returns when the shard was asked for. It returns signalbox.ErrNotHeld, and asks for
// nothing, if the member pauses, has its Limit, or has given the shard away, by Elsewhere say, and does not get it yet.
func (g *Group) Move(ctx context.Context, name, session string) error {
	return g.root().Explain("move", g.move(ctx, name, session))
}

func (g *Group) move(ctx context.Context, name, session string) error {
	if err := checkName(name); err != nil {
		return err
	}
	v, err := g.view(ctx)
	if err != nil {
		return err
	}
	number := v.memberOf(session)
	if number == "" {
		return fmt.Errorf("%w: session %.80q has no member in the group", errs.ErrNotHeld, session)
	}
	if err := g.base.Session.Handshake(ctx, g.keys[0]); err != nil {
		return acquire.CutShort(ctx, err)
	}
	_, missing, err := g.request(ctx, g.call(proto.ShardsMoveScript, proto.ShardsMove{
		Shard: name, Number: number, NotAfter: g.notAfter(), Publish: g.publish(),
	}.AppendTo(nil)))
	if err == nil && missing {
		err = fmt.Errorf("%w: there is no shard %q, or the member does not take it now", errs.ErrNotHeld, name)
	}
	if errors.Is(err, errLate) {
		err = errs.Join(errs.ErrRefused, err)
	}
	return acquire.CutShort(ctx, err)
}

// request sends one call under ctx. missing reports that the reply is that there is nothing.
func (g *Group) request(ctx context.Context, call wire.Call) (reply wire.Reply, missing bool, err error) {
	if reply, err = g.base.Session.Runner.Run(ctx, call); err == nil {
		err = g.observe(proto.ReadShardsHead(&reply))
	}
	return reply, reply.Code() == wire.NotDone, err
}

// repeat repeats a step until the server replies to it, ctx ends, or waiting cannot help. The server's time is known in the step:
// it has a not-after.
func (g *Group) repeat(ctx context.Context, step func() error) error {
	var none error // that there is no group: waiting does not make one
	err := g.base.Session.RepeatUntilReply(ctx, g.registry.Refused(), func() error {
		err := g.base.Session.Handshake(ctx, g.keys[0])
		if err == nil {
			err = step()
		}
		if errors.Is(err, errNoGroup) {
			none, err = err, nil
		}
		return err
	})
	return errs.Join(err, none)
}
