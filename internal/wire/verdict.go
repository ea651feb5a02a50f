// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// Verdict says what an error means for the script that it belongs to.
type Verdict int

const (
	// Unknown: the script was executed or not. Repeat it or undo it.
	Unknown Verdict = iota
	// Wait: it was not executed, and may be when it is sent again in a while.
	Wait
	// Final: it was not executed, and waiting mends nothing.
	Final
)

// The client removes "ERR " from the server's words; other codes stay.

// waiting lists the prefixes of refusals that end by themselves, or when an operator has removed their cause:
// a server that loads its data, a failover, a slot that is being moved, a long-running script, missing
// replicas, a full disk or memory. The server refuses all of them before the first write of a script of ours.
//
//nolint:gochecknoglobals // a constant table
var waiting = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF", "OOM", "MOVED", "ASK",
	"max number of clients",
}

// halfway lists the prefixes of refusals that end by themselves, but that a script may meet after its first
// write: a slot that is being moved, some of whose keys are away and not among the script's KEYS, such as
// those that Redisson keeps for readers.
//
//nolint:gochecknoglobals // a constant table
var halfway = []string{"Script attempted to access a non local key"}

// finals lists what is wrong for good, and known to be: no server's words among them.
//
//nolint:gochecknoglobals // a constant table
var finals = []error{errs.ErrClosed, errs.ErrWrongKind, errs.ErrDenied, errs.ErrOldServer, errs.ErrNotReplicated, errs.ErrCapacity, errs.ErrBusy, ErrNotSent, errUnreadable}

// errUnreadable says that a script returned what it never returns.
var errUnreadable = errors.New("a script's reply cannot be read")

// ErrNotSent says that a caller's context ended before its call was sent.
var ErrNotSent = errors.New("it was not sent")

// Judge returns what err means for the script that it belongs to.
func Judge(err error) Verdict {
	var refusal *rueidis.RedisError
	if errors.As(err, &refusal) {
		if begins(refusal.Error(), waiting) {
			return Wait
		}
		if begins(refusal.Error(), halfway) {
			return Unknown
		}
		return Final
	}
	for _, final := range finals {
		if errors.Is(err, final) {
			return Final
		}
	}
	if isUnconnected(err) || errors.Is(err, errUnsent) || errors.Is(err, rueidis.ErrNoSlot) {
		return Wait
	}
	return Unknown
}

// Explain gives an error of the client the sentinel that callers look for. The server's words stay, except
// for repeated arguments of a call.
func Explain(err error) error {
	var refusal *rueidis.RedisError
	switch {
	case errors.Is(err, rueidis.ErrClosing):
		return fmt.Errorf("%w: its client was closed", errs.ErrClosed)
	case !errors.As(err, &refusal):
		return err
	}
	words := refusal.Error()
	switch {
	case begins(words, waiting), begins(words, halfway):
		return fmt.Errorf("%w: %w", errs.ErrRefused, err)
	case begins(words, denied):
		return denial(err, words)
	case strings.HasPrefix(words, "WRONGTYPE"):
		return fmt.Errorf("%w: %w", errs.ErrWrongKind, err)
	}
	return err
}

func begins(text string, beginnings []string) bool {
	for _, beginning := range beginnings {
		if strings.HasPrefix(text, beginning) {
			return true
		}
	}
	return false
}
