// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Fenced makes tokens that are ordered: each holder has a greater token than every earlier holder. The
// servers' clocks may differ by less than a day for that, and a server that remembers the last token
// must be among those that grant the next one. A Lock takes one more round trip, in which a majority
// stores the token. All processes must use Fenced for the name: tokens without it are not stored.
func Fenced() signalbox.LockOption {
	return session.Option(proto.OptionFenced, nil, func(l *session.LockSettings) { l.Quorum.Fenced = true })
}

// MaxLease says how long the longest lease of any process for the name is, if that is not this
// lock's own, for instance while a new length is rolled out. A server that lost its data does not grant
// the name for that long, and gets a shorter lease back only then. d is from the lock's own lease to
// 24 h.
func MaxLease(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionMaxLease, session.CheckDuration("a greatest lease", d), func(l *session.LockSettings) {
		l.Quorum.Greatest = d
	})
}

// greatestLease returns the longest lease that anybody has for a name, by the options of one lock.
func greatestLease(set session.LeaseTerms, q session.QuorumSettings) (time.Duration, error) {
	switch {
	case q.Greatest == 0:
		return set.Lease, nil
	case q.Greatest < set.Lease:
		return 0, fmt.Errorf("%w: a greatest lease of %v: the lock's own is longer, %v", signalbox.ErrBadOption, q.Greatest, set.Lease)
	}
	return q.Greatest, nil
}
