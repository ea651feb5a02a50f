// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// listMembers returns the call that describes a group of shards and its first members.
func listMembers(set names.Set, most int) wire.Call {
	return wire.Call{Script: scripts.ShardsList, Keys: set.ShardKeys(), Args: []string{strconv.Itoa(most)}}
}

// leastMembers is how many members are read at the least. Those whose leases have ended come first, and what they own is unowned.
const leastMembers = 100

// queryShards queries a group of shards. It is in use while it has members.
func (n native) queryShards(ki *keyInspection, set names.Set) {
	ki.query(listMembers(set, max(n.waiterLimit, leastMembers)), func(reply wire.Reply) {
		switch {
		case reply.Code() == wire.Foreign:
			ki.setForeign()
			return
		case reply.Code() != wire.Done || reply.Int(7) == 0:
			return // no member
		}
		ki.inUse = true
		e := &ki.entry
		e.Kind, e.HolderCount = Shards, int(reply.Int(7))
		e.Shards, e.Unowned, e.Draining = int(reply.Int(2)), int(reply.Int(3)), int(reply.Int(5))
		e.UnownedSince, e.DrainingSince = timeOf(reply.Stamp(4)), timeOf(reply.Stamp(6))
		list, err := reply.Part(8)
		if err != nil {
			ki.err = err
			return
		}
		for i := 0; i+6 < list.Len(); i += 7 {
			number := list.Text(i)
			e.Holders = append(e.Holders, Holder{
				Session: layout.Native().Session(list.Text(i + 1)), Leaving: list.Text(i+2) != "l" && list.Text(i+2) != "p",
				Hold: session.HoldID(number), Since: wire.ParseStamp(number).Time(), Until: timeOf(list.Stamp(i + 3)),
				Shards: int(list.Int(i + 4)), Label: list.Text(i + 5), Value: list.Text(i + 6),
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

// breakMembers ends the members that a group of shards has now, by force: their shards go to others when their functions have
// returned, or when the lease ends. A member that is gone by then
// is passed over, so it can be repeated.
func breakMembers(ctx context.Context, s *session.Session, name string) error {
	set, err := s.Names(layout.Native(), name)
	if err != nil {
		return err
	}
	reply, err := s.Runner.Run(ctx, listMembers(set, maxOfName))
	if err != nil {
		return err
	}
	list, err := reply.Part(8)
	if err != nil {
		return errs.ErrNotHeld
	}
	var members []string
	for i := 0; i < list.Len(); i += 7 {
		members = append(members, list.Text(i))
	}
	if members, err = session.FilterForceTargets(ctx, members, identity); err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, set.Shards())
	for _, number := range members {
		end := wire.Call{Script: scripts.ShardsEnd, Keys: set.ShardKeys(), Args: []string{number, s.PublishCommand(), set.ShardNews()}}
		for more := true; more; {
			reply, err := s.Runner.Run(ctx, end)
			if err != nil {
				return err
			}
			more = reply.Int(2) == 1
		}
	}
	return nil
}
