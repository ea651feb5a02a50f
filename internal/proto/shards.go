// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Shards is a kind. Its holders are the members of the group.
//
//nolint:gochecknoglobals // a constant table
var Shards = Kind{
	Name: "shards",
	Options: OptionRenewedLease | OptionShardWeight | OptionShardLimit | OptionShardValue | OptionRebalanceDelay | OptionMoves |
		OptionDrainLimit | OptionRetry,
	Lease: DefaultTerm,
	Key:   Set.Shards,
	Read:  readGroup,
	Summary: func(u *Use) string {
		return fmt.Sprintf("%s, %d of %s unowned", counted(u.HolderCount, "member"), u.Unowned, counted(u.Shards, "shard"))
	},
}

// The scripts of a group of shards.
//
//nolint:gochecknoglobals // constants in all but name
var (
	ShardsJoinScript    = mustLoad("shards/join", 1)
	ShardsPollScript    = mustLoad("shards/poll", 1)
	ShardsReleaseScript = mustLoad("shards/release", 1)
	ShardsLeaveScript   = mustLoad("shards/leave", 1)
	ShardsReadScript    = mustLoad("shards/read", 1)
	ShardsSetScript     = mustLoad("shards/set", 1)
	ShardsMoveScript    = mustLoad("shards/move", 1)
	ShardsResizeScript  = mustLoad("shards/resize", 1)
	ShardsSyncScript    = mustLoad("shards/sync", 1)
	ShardsListScript    = mustLoad("shards/list", 1)
	ShardsEndScript     = mustLoad("shards/end", 1)
)

// counted returns a number with its noun, whose plural ends in s.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// ListMembersCall is the call that describes a group of shards and its first members.
func ListMembersCall(n Set, most int) wire.Call {
	return wire.Call{Script: ShardsListScript, Keys: n.ShardKeys(), Args: ShardsList{Most: strconv.Itoa(most)}.AppendTo(nil)}
}

// leastMembers is how many members are read at the least. Those whose leases have ended come first, and what they own is unowned.
const leastMembers = 100

// readGroup queries a group of shards. It is in use while it has members.
func readGroup(i *Inspection) {
	i.Query(ListMembersCall(i.Names, max(i.WaiterLimit, leastMembers)), func(reply wire.Reply) {
		group, err := ReadShardsListed(&reply)
		switch {
		case group.Code == wire.Foreign:
			i.SetForeign()
			return
		case group.Code != wire.Done || group.Size == 0:
			return // no member
		}
		i.InUse = true
		if err != nil {
			i.Err = err
			return
		}
		u := &i.Use
		u.HolderCount, u.Shards, u.Unowned, u.Draining = group.Size, group.Count, group.Unowned, group.Draining
		u.UnownedSince, u.DrainingSince = timeOf(group.UnownedSince), timeOf(group.DrainingSince)
		for _, m := range group.Members {
			u.Holders = append(u.Holders, Holder{
				Session: nativeSession(m.ID), Leaving: m.State != "l" && m.State != "p", Hold: HoldID(m.Number), Since: wire.ParseStamp(m.Number).Time(),
				Until: timeOf(m.Ends), Shards: m.Owned, Label: m.Label, Value: m.Value,
			})
		}
	})
}

// timeOf returns the time of a stamp; the zero time if there is no stamp.
func timeOf(s wire.Stamp) time.Time {
	if s == 0 {
		return time.Time{}
	}
	return s.Time()
}

// ShardsJoin is the call of shards/join.
type ShardsJoin struct {
	ID, NotAfter, LeaseUS, Weight, Limit, Count, Exact, CalmUS, Moves, DrainUS, Old, Label, Value, Mode, Requested, Known string
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsJoin) AppendTo(args []string) []string {
	return append(args, c.ID, c.NotAfter, c.LeaseUS, c.Weight, c.Limit, c.Count, c.Exact, c.CalmUS, c.Moves, c.DrainUS, c.Old, c.Label, c.Value, c.Mode,
		c.Requested, c.Known)
}

// ShardsPoll is the call of shards/poll.
type ShardsPoll struct {
	Number, Seen string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsPoll) AppendTo(args []string) []string {
	return append(args, c.Number, c.Seen, c.Verb, c.Channel)
}

// ShardsRelease is the call of shards/release.
type ShardsRelease struct {
	Number, Shards string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsRelease) AppendTo(args []string) []string {
	return append(args, c.Number, c.Shards, c.Verb, c.Channel)
}

// ShardsLeave is the call of shards/leave. A member that is Done runs nothing, and will run nothing.
type ShardsLeave struct {
	Number, Done string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsLeave) AppendTo(args []string) []string {
	return append(args, c.Number, c.Done, c.Verb, c.Channel)
}

// ShardsMember is the call of shards/end.
type ShardsMember struct {
	Number string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsMember) AppendTo(args []string) []string {
	return append(args, c.Number, c.Verb, c.Channel)
}

// ShardsSet is the call of shards/set.
type ShardsSet struct {
	Number, Weight, Limit, Mode, Value, Said string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsSet) AppendTo(args []string) []string {
	return append(args, c.Number, c.Weight, c.Limit, c.Mode, c.Value, c.Said, c.Verb, c.Channel)
}

// ShardsMove is the call of shards/move.
type ShardsMove struct {
	Shard, Number, NotAfter string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsMove) AppendTo(args []string) []string {
	return append(args, c.Shard, c.Number, c.NotAfter, c.Verb, c.Channel)
}

// ShardsResize is the call of shards/resize.
type ShardsResize struct {
	Known, ID, NotAfter string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsResize) AppendTo(args []string) []string {
	return append(args, c.Known, c.ID, c.NotAfter, c.Verb, c.Channel)
}

// ShardsSync is the call of shards/sync.
type ShardsSync struct {
	ID, Digest, Since, After, Names, Last, NotAfter string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c ShardsSync) AppendTo(args []string) []string {
	return append(args, c.ID, c.Digest, c.Since, c.After, c.Names, c.Last, c.NotAfter, c.Verb, c.Channel)
}

// ShardsRead is the call of shards/read.
type ShardsRead struct{ Seen, Began, MembersSeen, Shard string }

// AppendTo appends the arguments in the order of the header.
func (c ShardsRead) AppendTo(args []string) []string {
	return append(args, c.Seen, c.Began, c.MembersSeen, c.Shard)
}

// ShardsList is the call of shards/list.
type ShardsList struct{ Most string }

// AppendTo appends the arguments in the order of the header.
func (c ShardsList) AppendTo(args []string) []string { return append(args, c.Most) }

// ShardsHead is what the replies have in common.
type ShardsHead struct {
	Code wire.Code
	Now  wire.Stamp // the server's time; 0 if the reply has none
	Have int        // the count of the group, of the code OtherCapacity; 0 if its shards have names
}

// ReadShardsHead reads the reply of any script of shards but join.
func ReadShardsHead(r *wire.Reply) ShardsHead {
	h := ShardsHead{Code: r.Code()}
	switch {
	case h.Code == wire.Foreign:
	case h.Code != wire.OtherCapacity:
		h.Now = r.Stamp(1)
	case r.Int(2) != 1:
		h.Have = int(r.Int(1))
	}
	return h
}

// ShardsJoined is the reply of shards/join.
type ShardsJoined struct {
	ShardsHead
	Number string        // the name of the member at the server
	Life   time.Duration // how long its lease lasts
	Count  int           // how many shards the set has
	// Restored says that the server had lost the group: it has the count again, and names come from those that had them.
	Restored bool
}

// ReadShardsJoined reads the reply of shards/join.
func ReadShardsJoined(r *wire.Reply) (ShardsJoined, error) {
	switch code := r.Code(); {
	case code == wire.Late || code == wire.Foreign || code == wire.OtherCapacity:
		return ShardsJoined{ShardsHead: ReadShardsHead(r)}, nil
	case code != wire.Done || r.Stamp(1) == 0 || r.Stamp(2) == 0 || r.Int(3) <= 0:
		return ShardsJoined{}, wire.ErrUnreadable
	}
	return ShardsJoined{
		ShardsHead: ShardsHead{Code: wire.Done, Now: r.Stamp(2)}, Number: r.Text(1), Life: microseconds(r.Int(3)),
		Count: int(r.Int(4)), Restored: r.Int(5) == 1,
	}, nil
}

// ShardsPolled is the reply of shards/poll to a member.
type ShardsPolled struct {
	Now        wire.Stamp // the server's time
	Life       time.Duration
	More       bool
	Count      int
	News       string // the changes of the member's shards
	Known      string // what a join says of the group if the server loses it
	WantsNames bool   // this member is to send the names of its set, which all members request
	Read       string // the version of the last change of the shards that it owns and that have no news, and how many these are
	Said       uint64 // the number of the last settings that the server knows; 0 if they are those of the join
}

// ReadShardsPolled reads the reply of shards/poll to a member.
func ReadShardsPolled(r *wire.Reply) (ShardsPolled, error) {
	if r.Int(2) <= 0 {
		return ShardsPolled{}, wire.ErrUnreadable
	}
	return ShardsPolled{
		Now: r.Stamp(1), Life: microseconds(r.Int(2)), More: r.Int(3) == 1, Count: int(r.Int(4)), News: r.Text(5), Known: r.Text(6),
		WantsNames: r.Int(7) == 1, Read: r.Text(8), Said: uint64(max(r.Int(9), 0)), //nolint:gosec // it is 0 or more
	}, nil
}

// ShardsChanged is the reply of the scripts that change a group: release, leave, set, move, resize, sync and end.
type ShardsChanged struct {
	ShardsHead
	More   bool   // a poll is due at once; of end, the call is to be sent again
	Left   int64  // of leave and resize
	Whole  bool   // of sync: the round is over
	Partly bool   // of sync: this part is to be sent again
	SetAt  string // of resize: the stamp of the set; of sync: when the round began
}

// ReadShardsChanged reads the reply of a script that changes a group.
func ReadShardsChanged(r *wire.Reply) ShardsChanged {
	const partly = 2
	left := r.Int(3)
	return ShardsChanged{ShardsHead: ReadShardsHead(r), More: r.Int(2) == 1, Left: left, Whole: left == 1, Partly: r.Code() == partly, SetAt: r.Text(4)}
}

// ShardsView is the reply of shards/read.
type ShardsView struct {
	ShardsHead
	Anew            bool   // what the caller has read before is no more
	Version, Began  string // what the next call has for Seen and Began
	More            bool
	Count           int
	Named           bool
	Unowned, Moving int
	Changed         string // what the next call has for MembersSeen
	Rows            string
	Members         []string
	Ahead           time.Duration // by how much stamps of rows are ahead of the server's clock
	Missing         int           // how many names the server has lost
	Ended           string        // the members whose lease has ended, and when
}

// stampSize is the length of a stamp.
const stampSize = 16

// ReadShardsView reads the reply of shards/read.
func ReadShardsView(r *wire.Reply) (ShardsView, error) {
	const size, anew = 13, 2
	v := ShardsView{ShardsHead: ReadShardsHead(r)}
	rest := r.Text(12)
	switch {
	case v.Code == wire.NotDone:
		return v, nil
	case r.Len() < size || len(r.Text(2)) != stampSize || len(rest) < 2*stampSize || len(rest)%(2*stampSize) != 0:
		return v, wire.ErrUnreadable
	}
	v.Anew, v.Version, v.More, v.Began = v.Code == anew, r.Text(2), r.Int(3) == 1, r.Text(4)
	v.Count, v.Named, v.Unowned, v.Moving = int(r.Int(5)), r.Int(6) == 1, int(r.Int(7)), int(r.Int(8))
	v.Changed, v.Rows = r.Text(9), r.Text(10)
	list, err := r.Part(11)
	for i := range list.Len() {
		if member := list.Text(i); member != "" {
			v.Members = append(v.Members, member)
		}
	}
	ahead, _ := strconv.ParseInt(rest[:stampSize], 10, 64)
	v.Ahead = microseconds(ahead)
	v.Missing, _ = strconv.Atoi(rest[stampSize : 2*stampSize])
	v.Ended = rest[2*stampSize:]
	return v, err
}

// ShardsListed is the reply of shards/list. Its Code is not Done if there is no group.
type ShardsListed struct {
	ShardsHead
	Count, Unowned, Draining    int
	UnownedSince, DrainingSince wire.Stamp // those of the first such shard, 0 if there is none
	Size                        int        // how many members there are
	Members                     []ShardsMemberListed
}

// ShardsMemberListed is a member, as shards/list describes it.
type ShardsMemberListed struct {
	Number, ID, State string
	Ends              wire.Stamp
	Owned             int
	Label, Value      string
}

// ReadShardsListed reads the reply of shards/list.
func ReadShardsListed(r *wire.Reply) (ShardsListed, error) {
	const size = 7
	l := ShardsListed{ShardsHead: ReadShardsHead(r)}
	if l.Code != wire.Done {
		return l, nil
	}
	l.Count, l.Unowned, l.Draining, l.Size = int(r.Int(2)), int(r.Int(3)), int(r.Int(5)), int(r.Int(7))
	l.UnownedSince, l.DrainingSince = r.Stamp(4), r.Stamp(6)
	list, err := r.Part(8)
	for at := 0; at+size <= list.Len(); at += size {
		l.Members = append(l.Members, ShardsMemberListed{
			Number: list.Text(at), ID: list.Text(at + 1), State: list.Text(at + 2), Ends: list.Stamp(at + 3), Owned: int(list.Int(at + 4)),
			Label: list.Text(at + 5), Value: list.Text(at + 6),
		})
	}
	return l, err
}
