// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

const (
	// DefaultLease is the lease of a term unless signalbox.WithRenewedLease sets another one, for the
	// election or by signalbox.WithDefaults.
	DefaultLease = proto.DefaultTerm
	// MaxValue is the length of the longest value, in bytes.
	MaxValue = 4096
	// stepDownParts is which part of the lease StepDown is by default, and mostParts which it is at most.
	stepDownParts, mostParts = 3, 2
)

// StepDown sets how long before the end of its lease a term ends: the time that a leader has to
// stop its work after it lost touch with the server, which in client-go is LeaseDuration less RenewDeadline. It is a third of
// the lease by default. d is from 0 to half of the lease, and of the first lease if signalbox.WithFirstLease sets a shorter one.
//
// If the candidate had to wait, its term has at most 3 s until its first renewal, which is sent at once.
// Until then the term ends d before that time is over. If d is more than half of that time, the term
// ends the same share of it early as of the whole lease: a third by default.
func StepDown(d time.Duration) signalbox.LockOption {
	var err error
	if d < 0 {
		err = fmt.Errorf("%w: to step down %v before the end of the lease: it must be from 0", errs.ErrBadOption, d)
	}
	return session.Option(proto.OptionStepDown, err, func(l *session.LockSettings) { l.Election.StepDown = d })
}

// Value sets the value that each term begins with, such as the address of the process. Observers
// read it; SetValue changes it later. It has at most MaxValue bytes. By default it is empty. It is
// written just after the term began, so Leader may return the leader without it for a moment. Observe yields
// them together.
func Value(value string) signalbox.LockOption {
	return session.Option(proto.OptionValue, session.CheckValue(value, MaxValue), func(l *session.LockSettings) { l.Election.Value = value })
}

// end returns the option with which the options of an election end: it checks them together, and
// copies them to set.
func end(set *session.LockSettings) signalbox.LockOption {
	return func(l *session.LockSettings) {
		most := l.First() / mostParts
		switch {
		case l.Election.StepDown == session.Unset:
			l.Election.StepDown = l.Lease / stepDownParts
		case l.Election.StepDown > most:
			l.Fail(fmt.Errorf("%w: to step down %v before the end of the lease: it must be at most %v, half of the first lease",
				errs.ErrBadOption, l.Election.StepDown, most))
		}
		*set = *l
	}
}
