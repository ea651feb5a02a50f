// SPDX-License-Identifier: Apache-2.0

package shards

import (
	"errors"
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// Why a Shard has ended, besides signalbox.ErrLost: what Shard.Err returns, and context.Cause of a context that
// is bound to it. The owner must stop its work then, and release the shard.
var (
	// ErrMoved: another member is to own the shard.
	ErrMoved = errors.New("the shard moves to another member")
	// ErrRemoved: the set has the shard no more.
	ErrRemoved = errors.New("the shard was removed")
	// ErrResized: the number of shards changes, so that keys belong to other shards.
	ErrResized = errors.New("the number of shards changes")
	// ErrLeft: the member leaves the group.
	ErrLeft = errors.New("the member leaves")
)

// Finished is what a function of Run returns if the work of a named shard is done for good: the name leaves the
// set. It may be wrapped. For a shard of Count it is an error like any other.
var Finished = errors.New("the shard is finished") //nolint:errname,gochecknoglobals,revive,staticcheck // a word of the function's, as io.EOF is

// DefaultElsewhere is how long this member does not get a shard back after Elsewhere with a time of 0, and after
// a panic.
const DefaultElsewhere = 30 * time.Second

// maxElsewhere is how long a shard is kept from a member at most: the script takes 15 digits of microseconds.
const maxElsewhere = 365 * 24 * time.Hour

// elsewhereError is what Elsewhere returns.
type elsewhereError struct {
	err   error
	pause time.Duration
}

// Elsewhere returns an error by which a function of Run gives its shard away: it is released, and this member
// does not get it again for d: DefaultElsewhere if d is not positive, and a year if it is longer. err says why, and may
// be nil.
func Elsewhere(err error, d time.Duration) error {
	if d <= 0 {
		d = DefaultElsewhere
	}
	return &elsewhereError{err, min(d, maxElsewhere)}
}

// Error implements error.
func (e *elsewhereError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("not here for %v", e.pause)
	}
	return errs.OneLine(fmt.Sprintf("not here for %v: %v", e.pause, e.err))
}

// Unwrap returns why.
func (e *elsewhereError) Unwrap() error { return e.err }
