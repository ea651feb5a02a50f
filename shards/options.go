// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

const (
	// DefaultLease is the lease of a member unless signalbox.WithRenewedLease sets another one, for the group or
	// by signalbox.WithDefaults. MinLease is the shortest.
	DefaultLease, MinLease = proto.DefaultTerm, 5 * time.Second
	// DefaultRebalanceDelay is RebalanceDelay if the option is not given.
	DefaultRebalanceDelay = 2 * time.Second
	// DefaultRetryMin and DefaultRetryMax are what Retry sets if the option is not given.
	DefaultRetryMin, DefaultRetryMax = 100 * time.Millisecond, 30 * time.Second
	// MaxValue is the length of the longest value, in bytes.
	MaxValue = 256
	// MaxWeight is the greatest weight of a member.
	MaxWeight = 1000

	maxRebalanceDelay = time.Minute
	minDrainLimit     = time.Second
)

// Weight sets the part of a member: it owns about w / sum of all weights of the shards. w is from 1 to
// MaxWeight; 1 by default. Member.SetWeight changes it later.
func Weight(w int) signalbox.LockOption {
	err := checkWeight(w)
	if w == 0 {
		err = fmt.Errorf("%w: a weight of 0: begin with 1, and call Member.SetWeight", errs.ErrBadOption)
	}
	return session.Option(proto.OptionShardWeight, err, func(l *session.LockSettings) { l.Shards.Weight = w })
}

func checkWeight(w int) error {
	if w < 0 || w > MaxWeight {
		return fmt.Errorf("%w: a weight of %d: it must be from 1 to %d", errs.ErrBadOption, w, MaxWeight)
	}
	return nil
}

// Limit sets the greatest number of shards that a member owns. One that was asked for counts until its function has
// returned: so no more than n functions run in a member, except after a lost lease or DrainLimit. If the limits of all
// members are less than the number of shards, some have no owner: see View.Unowned. n is from 1 to MaxShards, which is
// the default.
func Limit(n int) signalbox.LockOption {
	return session.Option(proto.OptionShardLimit, session.CheckRange("a limit of %d shards", n, 1, MaxShards), func(l *session.LockSettings) {
		l.Shards.Limit = n
	})
}

// Value sets what observers read of the member, such as its address. It has at most MaxValue bytes. By default
// it is empty. Member.SetValue changes it later.
func Value(value string) signalbox.LockOption {
	return session.Option(proto.OptionShardValue, session.CheckValue(value, MaxValue), func(l *session.LockSettings) { l.Shards.Value = value })
}

// RebalanceDelay sets how long no member must have joined before shards of active members are asked for; 2 s by
// default. So members that join one after the other cost one round of moves. After five times as long shards
// are asked for in any case. d is from 0 to a minute. The option of the member that joined last counts.
func RebalanceDelay(d time.Duration) signalbox.LockOption {
	err := session.CheckRange("a rebalance delay of %v", d, 0, maxRebalanceDelay)
	return session.Option(proto.OptionRebalanceDelay, err, func(l *session.LockSettings) { l.Shards.RebalanceDelay = d })
}

// MaxMoves sets how many shards of the group may be on their way at once; a tenth of the shards by default, and at
// least 16. A shard whose drain takes longer than 10 s does not count any more. n is from 1 to MaxShards. The option
// of the member that joined last counts.
func MaxMoves(n int) signalbox.LockOption {
	return session.Option(proto.OptionMoves, session.CheckRange("%d moves at once", n, 1, MaxShards), func(l *session.LockSettings) { l.Shards.Moves = n })
}

// DrainLimit sets how long an owner that has heard that its shard was asked for keeps it. The context of the shard
// has ended by then. After d another member owns the shard, beside a function that still runs: only tokens protect
// what both write. An owner that does not hear it keeps the shard until its lease ends. By default there is no
// limit. d is from one second to a day. The option of the member that joined last counts.
func DrainLimit(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionDrainLimit, session.CheckRange("a drain limit of %v", d, minDrainLimit, session.MaxLease), func(l *session.LockSettings) {
		l.Shards.DrainLimit = d
	})
}

// Retry sets for how long Run pauses before it calls a function again that has returned: from least, after the
// first error in a row, to most. It doubles with each error. After nil it is least. 100 ms and 30 s by default. Both are
// from 1 ms to 24 h, and most is no less than least.
func Retry(least, most time.Duration) signalbox.LockOption {
	var err error
	if least < time.Millisecond || most < least || most > session.MaxLease {
		err = fmt.Errorf("%w: to retry after %v to %v: it must be from 1ms to %v", errs.ErrBadOption, least, most, session.MaxLease)
	}
	return session.Option(proto.OptionRetry, err, func(l *session.LockSettings) { l.Shards.RetryMin, l.Shards.RetryMax = least, most })
}

// end returns the option with which the options of a group end: it checks them together, and copies them
// to set.
func end(set *session.LockSettings) signalbox.LockOption {
	return func(l *session.LockSettings) {
		if l.Lease < MinLease {
			l.Fail(fmt.Errorf("%w: a lease of %v: a member has at least %v", errs.ErrBadOption, l.Lease, MinLease))
		}
		o := &l.Shards
		if o.RebalanceDelay == session.Unset {
			o.RebalanceDelay = DefaultRebalanceDelay
		}
		if o.RetryMin == 0 {
			o.RetryMin, o.RetryMax = DefaultRetryMin, DefaultRetryMax
		}
		if o.Weight == 0 {
			o.Weight = 1
		}
		if o.Limit == 0 {
			o.Limit = MaxShards
		}
		*set = *l
	}
}
