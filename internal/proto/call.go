// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Each call of a script is a struct with the arguments that the script's header describes, and each reply one with what it says. The
// files call_*.go have them by families of scripts.

// Publish says how a script notifies sessions: by which command, and on which channel.
type Publish struct{ Verb, Channel string }

// Flag returns a fact as an argument of scripts.
func Flag(is bool) string { //nolint:revive // a fact, not a switch
	if is {
		return "1"
	}
	return "0"
}

// microseconds and milliseconds read the numbers of replies that say how long something lasts.
func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Undone is the reply of a script that undoes: one that leaves, releases or resets.
type Undone struct {
	Code wire.Code
	Now  wire.Stamp // the server's time; 0 if the reply has none
}

// ReadUndone reads the reply of a script that undoes.
func ReadUndone(r *wire.Reply) Undone { return Undone{Code: r.Code(), Now: r.Stamp(1)} }
