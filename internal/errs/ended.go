// SPDX-License-Identifier: Apache-2.0

package errs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// The rule: errors.Is(err, context.DeadlineExceeded) and errors.Is(err, context.Canceled) hold only
// if the caller's own context ended. The library's own time limits and cancellations therefore come
// from WithTimeout and WithCancel below, and OfCall turns the error of every call of the client
// into one that keeps the rule. The end of the caller's context is reported by Ended.

// Ended returns the error of the caller's context, which has ended. If the context has another
// cause, the error is joined with it.
func Ended(ctx context.Context) error {
	err, cause := OfContext(ctx), context.Cause(ctx)
	if cause == nil || errors.Is(cause, err) {
		return err
	}
	return Join(err, cause)
}

// OfContext returns the error of a context that has ended. It is never nil: some contexts of other packages close Done a moment
// before Err says why, and without an error a caller would believe that it has what it asked for.
func OfContext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}

// NoReply returns the error of a call that the library stopped waiting for after limit.
func NoReply(limit time.Duration) error {
	return fmt.Errorf("%w within %v", ErrNoReply, limit.Round(time.Millisecond))
}

// libraryError is the cause of a context that the library itself ended.
type libraryError struct{ error }

// WithTimeout is context.WithTimeout for a time limit of the library's own: a call that it ends has
// the error NoReply.
func WithTimeout(parent context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(parent, limit, libraryError{NoReply(limit)})
}

// WithCancel is context.WithCancel for a reason of the library's own: a call that cancel ends has
// the error reason.
func WithCancel(parent context.Context, reason error) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	return ctx, func() { end(libraryError{reason}) }
}

// OfCall returns the error for the caller of a call of the client that ended with err under ctx. If
// WithTimeout or WithCancel ended ctx, that is their reason. If something other than ctx ended the
// call, such as a time limit of the client, or the context of another call that shared the attempt
// to connect, it is an error that matches ErrNoReply and no context's error. Any other err is
// returned as it is.
func OfCall(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	late, cancelled := errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled)
	switch ended := ctx.Err(); {
	case !late && !cancelled && !errors.Is(err, os.ErrDeadlineExceeded):
		return err
	case ended == nil, late && cancelled, !errors.Is(err, ended):
		return &noReplyError{err}
	}
	var ours libraryError
	if errors.As(context.Cause(ctx), &ours) {
		return ours.error
	}
	return err
}

// noReplyError is an error that matches ErrNoReply. It matches no context's error, though its text may
// name one. Only errors.As finds its parts.
type noReplyError struct{ err error }

// Error implements error.
func (e *noReplyError) Error() string { return ErrNoReply.Error() + ": " + e.err.Error() }

// Is makes errors.Is(err, ErrNoReply) hold.
func (e *noReplyError) Is(target error) bool { return target == ErrNoReply }

// As makes errors.As search what Is hides from errors.Is.
func (e *noReplyError) As(target any) bool { return errors.As(e.err, target) }
