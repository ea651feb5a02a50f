// SPDX-License-Identifier: Apache-2.0

// Package errs holds the sentinel errors, so that the packages below signalbox can return
// them. Package signalbox exports and documents each of them. It also combines errors: Join writes
// several on one line, and OfCall makes sure that only the caller's own context is in the error of
// a call.
package errs

import (
	"errors"
	"fmt"
	"strings"
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
