// SPDX-License-Identifier: Apache-2.0

// Package errs holds the sentinel errors, so that the packages below signalbox can return
// them. Package signalbox exports and documents each of them. It also combines errors: Join writes
// several on one line, and OfCall makes sure that only the caller's own context is in the error of
// a call.
package errs

import (
	"errors"
	"fmt"
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
