// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// Verdict says what an error means for the script that it answers.
type Verdict int

const (
	// Unknown: the script was executed or not. Repeat it or undo it.
	Unknown Verdict = iota
	// Wait: it was not executed, and may be when it is sent again in a while.
	Wait
	// Final: it was not executed, and waiting mends nothing.
	Final
)

// The client takes "ERR " off the server's words; other codes stay.

// waiting lists how the refusals begin that pass by themselves, or once an operator has seen to
// their cause: a server that loads its data, a failover, a slot on the move, a script of
// somebody's that runs for long, replicas that are away, a disk or a memory that is full. The
// server refuses all of them before the first write of a script of ours.
//
//nolint:gochecknoglobals // a constant table
var waiting = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF", "OOM", "MOVED", "ASK",
	"max number of clients",
}

// halfway lists how the refusals begin that pass by themselves, but that a script may meet behind its first write: a slot on
// the move, some of whose keys are away and are not among the script's KEYS, as those that Redisson keeps for readers.
//
//nolint:gochecknoglobals // a constant table
var halfway = []string{"Script attempted to access a non local key"}

// finals lists what is wrong for good, and known to be: no server's words among them.
//
//nolint:gochecknoglobals // a constant table
var finals = []error{errs.ErrClosed, errs.ErrWrongKind, errs.ErrDenied, errs.ErrOldServer, errs.ErrNotReplicated, errs.ErrCapacity, errs.ErrBusy, ErrNotSent, errUnreadable}

// errUnreadable says that a script answered what it never answers.
var errUnreadable = errors.New("a script's reply cannot be read")

// ErrNotSent says that a caller's context ended before its call was sent.
var ErrNotSent = errors.New("it was not sent")

// Judge says what err means for the script that it answers.
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
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" || errors.Is(err, rueidis.ErrNoSlot) {
		return Wait
	}
	return Unknown
}

// Explain gives an error of the client the sentinel that callers look for. The server's words
// stay, less what they repeat of a call's arguments.
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
