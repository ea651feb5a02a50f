// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// breakMembers ends the members that a group of shards has now, by force: their shards go to others when their functions have
// returned, or when the lease ends. A member that is gone by then
// is passed over, so it can be repeated.
func breakMembers(ctx context.Context, of *signalbox.Session, name string) error {
	s := (*session.Handle)(of).Session()
	set, err := s.Names(proto.Native(), name)
	if err != nil {
		return err
	}
	reply, err := s.Runner.Run(ctx, proto.ListMembersCall(set, maxOfName))
	if err != nil {
		return err
	}
	group, err := proto.ReadShardsListed(&reply)
	if err != nil || group.Code != wire.Done {
		return errs.ErrNotHeld
	}
	var members []string
	for _, m := range group.Members {
		members = append(members, m.Number)
	}
	if members, err = session.FilterForceTargets(ctx, members, identity); err != nil {
		return err
	}
	s.HandshakeInCluster(ctx, set.Shards())
	for _, number := range members {
		call := proto.ShardsMember{Number: number, Publish: proto.Publish{Verb: s.PublishCommand(), Channel: set.ShardNews()}}
		end := wire.Call{Script: scripts.ShardsEnd, Keys: set.ShardKeys(), Args: call.AppendTo(nil)}
		for more := true; more; {
			reply, err := s.Runner.Run(ctx, end)
			if err != nil {
				return err
			}
			more = proto.ReadShardsChanged(&reply).More
		}
	}
	return nil
}
