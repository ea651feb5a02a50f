// SPDX-License-Identifier: Apache-2.0

// Package shards divides shards among the members of a group: each shard has one owner at a time, loads are even, and few
// shards move when members come and go.
//
// Use it for work that does not end, such as partitions and tenants. For jobs that end use a queue, for
// a single piece package election.
//
//	group := shards.New(session, "orders", shards.Count(64), shards.Value("10.0.0.7:8080"))
//	err := group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
//		return consume(ctx, s.Index(), s.Token()) // stop when ctx ends
//	})
//
//	for view, err := range group.Watch(ctx) {
//		... view.OwnerOf(key).Value
//	}
//
// # Guarantees
//
//  1. Exclusion: no shard has two live contexts at a time. For this, each function must return when its context ends.
//     Package signalbox, guarantee 1, has two exceptions. Two more: the server's clock is set forward by more than 3 s, in a
//     member's first second by more than 1.9 s, or the server loses its data and a member does not reach it for 2 s.
//  2. No function of a shard starts while another one of it runs, here or elsewhere, except after a lost lease, DrainLimit or a
//     Close that ran out of time. In one Run or Member there is no exception.
//  3. A context ends a third of the lease before the ownership can end at the server: 5 s of 15 s. Its cause is ErrMoved,
//     ErrRemoved, ErrResized, ErrLost, or the caller's.
//  4. A shard that moves is without an owner for a release, a message and a request; for a second more if the message is
//     lost. After a crash it is for a lease and a second: 3 s and its age if the member was younger than 12 s; for up to 2 s
//     more if the next owner polls late.
//  5. Even: when no member has joined for RebalanceDelay, the shards that a member owns or is promised are its share, rounded up or
//     down. With weights no move would make the loads by weight more even. A shard that drains for longer than a minute counts
//     for no member.
//  6. Few moves: a join moves the share of the new member, rounded down; a leave or a crash the shards of that member alone.
//  7. A rolling restart of M members moves each of N shards once if each new member joins at most RebalanceDelay before
//     its predecessor leaves, and about twice if it leaves first. M - 1 more may move if M does not divide N.
//  8. A shard that was asked for is released when its function has returned, and renewed until then. A function that hangs
//     delays its own shard alone, unless DrainLimit is set.
//  9. A function that returns is called again here. The shard stays, and the server hears nothing. Elsewhere, Finished and a
//     panic give it away; see Run.
//  10. A shard whose owners died three times in a row waits for 1 s, and longer each time up to 5 min. The others do not.
//  11. When the number of shards changes, no new one is granted before all old ones are released.
//  12. Fencing: a Shard has a greater token than every earlier owner of any shard of the group. Package signalbox, guarantee 2,
//     has the exceptions. A grant with a smaller token than an earlier one of this Member is declined.
//  13. A shard without an owner for longer than a lease and 3 s is an error of Health, also if all members have died. The time begins
//     when the last owner has released the shard, or with the end of its lease. A grant that a member declines makes no owner.
//  14. Owned is served: a member that takes nothing up for a minute releases the shards that it has not taken up, and asks
//     for no others until it does. Run takes a shard up when it calls the function, and a Member when Changes yields its
//     Granted, or Own returns it. What the work does after that is not known.
//
// # Not promised
//
//   - Which member gets which shard; zones; loads by work instead of by count.
//   - That a function stops in time: after a lost lease it may run beside the next one elsewhere. Pass Shard.Token to what
//     it writes to.
//   - Ownership over a failover that lost writes: until each member has polled twice, a shard may have two owners.
//   - That all shards have owners if members have a Limit.
//
// # States
//
//	pending -> working -> stopping -> over     a Shard: granted, its function runs, it must stop, it is released
//	joining -> active -> retiring              a member; after a lost lease the next one begins at once
//
// # Time
//
// A new group grants nothing for 2 to 3 s, in which its first members join. The lease is 15 s (signalbox.WithRenewedLease), and 3 s
// and its age while a member is younger than 12 s. Each poll, once a second, renews it; while polls fail for a third of it, renewals
// with one key do.
//
// # Failure
//
//	event                              what happens
//	reply or message lost              a second more
//	server away for half a lease       nothing: shards stay
//	server away for longer             ErrLost; functions drain, the member joins again, shards are granted anew
//	server lost its data, or a key     ErrLost within a second; granted anew after 2 s, in the set that it had
//	a key is restored from a copy      the same; or nothing, except a lease more for the shards of the dead
//	server lost its newest writes      ErrLost within 5 s for the shards that it does not know of; the others stay
//	member killed                      its shards move after its lease and a second
//	process stopped, and resumed       the first Err returns ErrLost
//	function hangs when it must stop   its shard stays, promised to the next owner; Health says so after a minute
//	no goroutine reads Changes         what was not read moves after a minute; the log, ShardSlow and Health say so
//	a slot of a cluster moves          leases are renewed by one key; nothing moves meanwhile
//	memory of the server full          joins wait; polls, releases and settings work
//	members with two counts            the count of the group stays until all were made with the other; the log says so
//
// # Cost
//
//	member                   1 poll a second, 10 while no messages arrive, 1 goroutine; Run 1 goroutine a shard
//	a move                   2 polls, 1 release, 2 messages; up to 16 releases are 1 request
//	Join, Owner              1 round trip
//	View, Health             1 round trip for 512 shards
//	Watch                    1 poll a second for a session and group
//	SetWeight, SetValue      1 round trip
//	Leave                    2 round trips, and the releases
package shards
