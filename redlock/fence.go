// SPDX-License-Identifier: Apache-2.0

package redlock

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// fence makes a quorum store a token that is greater than all it knows of, if the lock is Fenced.
func (b *ballot) fence(ctx context.Context, last wire.Stamp) (wire.Stamp, error) {
	l := b.lock
	if !l.base.Quorum.Fenced {
		return last, nil
	}
	token := last + 1
	kept := make(chan error, len(l.members))
	runAll(l.members, func(i int, m *session.Session) { //nolint:contextcheck // its time is its own
		patience := m.Patient(replyWithin(l.base.Terms.Life()))
		defer patience.End()
		reply, err := m.Runner.Run(patience, wire.Call{
			Script: scripts.RedlockFence,
			Keys:   []string{l.keys[0], l.keys[2]},
			Args:   []string{b.hold(i), token.Text()},
		})
		if err == nil && reply.Code() == wire.NotDone {
			err = errNoQuorum
		}
		kept <- l.withNumber(i, err)
	})
	count := tally{n: len(l.members)}
	var failures []error
	for count.verdict() == open {
		select {
		case err := <-kept:
			count.add(err == nil)
			if err != nil && !errors.Is(err, errNoQuorum) {
				failures = append(failures, err)
			}
		case <-ctx.Done():
			return 0, errs.Ended(ctx)
		}
	}
	if count.verdict() == failed {
		return 0, errs.Join(append(failures, errNoQuorum)...)
	}
	return token, nil
}
