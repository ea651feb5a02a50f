// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
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

// counted returns a number with its noun, whose plural ends in s.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// ListMembersCall is the call that describes a group of shards and its first members.
func ListMembersCall(n Set, most int) wire.Call {
	return wire.Call{Script: scripts.ShardsList, Keys: n.ShardKeys(), Args: ShardsList{Most: strconv.Itoa(most)}.AppendTo(nil)}
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
