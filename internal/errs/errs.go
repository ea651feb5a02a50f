// SPDX-License-Identifier: Apache-2.0

// Package errs holds the sentinel errors, so that the packages below signalbox can return
// them. Package signalbox exports and documents each of them. It also combines errors: Join writes
// several on one line, and OfCall makes sure that only the caller's own context is in the error of
// a call.
package errs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// The sentinels; package signalbox says when each happens.
var (
	ErrHeld        = errors.New("the lock is held")
	ErrLost        = errors.New("the lease was lost")
	ErrReleased    = errors.New("the lease was released")
	ErrMaxHold     = errors.New("the lease was held for as long as WithMaxHold allows")
	ErrNotHeld     = errors.New("the lease is not held")
	ErrUnconfirmed = errors.New("the server did not confirm it")
	ErrClosed      = errors.New("the session is closed")
	ErrBadName     = errors.New("the name is not valid")
	ErrBadOption   = errors.New("an option is not valid")
	ErrWrongKind   = errors.New("the name is in use by something else")
	ErrUpgrade     = errors.New("a reader cannot become a writer")
	ErrDenied      = errors.New("the server denies access")
	ErrRefused     = errors.New("the server refuses for now")
	ErrUnsupported = errors.New("this cannot work here")
	ErrOldServer   = errors.New("the server is too old")
	ErrCapacity    = errors.New("the capacity does not allow it")
	ErrBusy        = errors.New("too many goroutines wait")

	ErrNoReply       = errors.New("no reply from the server")
	ErrNotReplicated = errors.New("too few replicas have the lock")

	ErrRunning   = errors.New("a round is running")
	ErrNoRound   = errors.New("there is no round")
	ErrRoundOver = errors.New("the round is over")
	ErrReset     = errors.New("the round was reset")
	ErrRoundLost = errors.New("the server knows the round no more")

	ErrStale    = errors.New("the outcome came too late and was not stored")
	ErrTooLarge = errors.New("the value is too large")
)

// These are ErrLost, with the reason.
var (
	ErrLostLate  = fmt.Errorf("%w: it was not renewed in time", ErrLost)
	ErrLostFixed = fmt.Errorf("%w: the time of its fixed lease is over", ErrLost)
	ErrLostGone  = fmt.Errorf("%w: the server no longer has it; it was ended by force, deleted or evicted", ErrLost)
)

// Join is errors.Join with the texts on one line, because logs are line-based. If only one error is
// not nil, Join returns that error itself.
func Join(all ...error) error {
	var some []error // most calls join nothing, and allocate nothing
	for _, err := range all {
		if err != nil {
			some = append(some, err)
		}
	}
	switch len(some) {
	case 0:
		return nil
	case 1:
		return some[0]
	}
	return &joinedError{some, "; "}
}

// joinedError is several errors on one line.
type joinedError struct {
	all       []error
	separator string
}

// Error implements error.
func (j *joinedError) Error() string {
	texts := make([]string, len(j.all))
	for i, err := range j.all {
		texts[i] = OneLine(err.Error())
	}
	return strings.Join(texts, j.separator)
}

// Unwrap makes errors.Is and errors.As search all of them.
func (j *joinedError) Unwrap() []error { return j.all }

// OneLine returns text with "; " instead of line breaks, which the words of a server or of a
// caller's cause may contain.
func OneLine(text string) string {
	if !strings.ContainsAny(text, "\r\n") {
		return text
	}
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }), "; ")
}

// ErrHeldHere is the ErrHeld of a call behind others of its own session, which hold the lock or wait for it.
var ErrHeldHere = fmt.Errorf("%w, or waited for, by this session; its holder enters it again by the context of Lease.Enter", ErrHeld)

// WhileHeld is the error of a wait that ended with err while the lock was held.
func WhileHeld(err error) error { return whileHeld(ErrHeld, err) }

// WhileHeldHere is WhileHeld for a wait behind others of the session.
func WhileHeldHere(err error) error { return whileHeld(ErrHeldHere, err) }

func whileHeld(held, err error) error {
	if errors.Is(err, ErrHeld) {
		return err
	}
	return &joinedError{[]error{held, err}, ": "}
}

// maxQuoted is how many bytes of a name errors and logs have at most: the reason comes behind it.
const maxQuoted = 64

// Quote returns a name between quotes, without its end if it is long.
func Quote(name string) string {
	if len(name) <= 2*maxQuoted {
		return strconv.Quote(name)
	}
	return strconv.Quote(Shorten(name))
}

// Shorten returns a name without its end if it is long.
func Shorten(name string) string {
	if len(name) <= 2*maxQuoted {
		return name
	}
	return strings.ToValidUTF8(name[:maxQuoted], "") + "... (" + strconv.Itoa(len(name)) + " bytes)"
}

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
func (e *noReplyError) Error() string {
	text := e.err.Error()
	if strings.HasPrefix(text, ErrNoReply.Error()) {
		return text // it says so
	}
	return ErrNoReply.Error() + ": " + text
}

// Is makes errors.Is(err, ErrNoReply) hold.
func (e *noReplyError) Is(target error) bool { return target == ErrNoReply }

// As makes errors.As search what Is hides from errors.Is.
func (e *noReplyError) As(target any) bool { return errors.As(e.err, target) }
