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
	return wire.Call{Script: scripts.ShardsList, Keys: n.ShardKeys(), Args: []string{strconv.Itoa(most)}}
}

// leastMembers is how many members are read at the least. Those whose leases have ended come first, and what they own is unowned.
const leastMembers = 100

// readGroup queries a group of shards. It is in use while it has members.
func readGroup(i *Inspection) {
	i.Query(ListMembersCall(i.Names, max(i.WaiterLimit, leastMembers)), func(reply wire.Reply) {
		switch {
		case reply.Code() == wire.Foreign:
			i.SetForeign()
			return
		case reply.Code() != wire.Done || reply.Int(7) == 0:
			return // no member
		}
		i.InUse = true
		u := &i.Use
		u.HolderCount = int(reply.Int(7))
		u.Shards, u.Unowned, u.Draining = int(reply.Int(2)), int(reply.Int(3)), int(reply.Int(5))
		u.UnownedSince, u.DrainingSince = timeOf(reply.Stamp(4)), timeOf(reply.Stamp(6))
		list, err := reply.Part(8)
		if err != nil {
			i.Err = err
			return
		}
		for at := 0; at+6 < list.Len(); at += 7 {
			number := list.Text(at)
			u.Holders = append(u.Holders, Holder{
				Session: nativeSession(list.Text(at + 1)), Leaving: list.Text(at+2) != "l" && list.Text(at+2) != "p",
				Hold: HoldID(number), Since: wire.ParseStamp(number).Time(), Until: timeOf(list.Stamp(at + 3)),
				Shards: int(list.Int(at + 4)), Label: list.Text(at + 5), Value: list.Text(at + 6),
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
