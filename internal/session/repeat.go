// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// RepeatUntilReply repeats a step until the server replies to it, until waiting cannot help, or until ctx or the
// session ends. refused is closed when the session refuses work: no timer may fire after that. The step must
// be repeatable, or its error ErrUnconfirmed.
func (s *Session) RepeatUntilReply(ctx context.Context, refused <-chan struct{}, step func() error) error {
	var last error // the error of the step before
	for fails := 0; ; fails++ {
		if err := s.Ready(); err != nil {
			return errs.Join(err, last)
		}
		if ctx.Err() != nil {
			return errs.Join(errs.Ended(ctx), last)
		}
		err := step()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errs.ErrUnconfirmed):
			return errs.Join(err, errs.Ended(ctx))
		case ctx.Err() != nil:
			return errs.Join(errs.Ended(ctx), last) // the step was cut short: the error before it is still true
		case wire.Judge(err) == wire.Final:
			return err
		}
		last = err
		s.BackOff(ctx, fails, refused)
	}
}
