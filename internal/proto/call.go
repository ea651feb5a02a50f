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

// endOf reads the milliseconds since 1970 in which a key ends. A key without an end has less than 0. One that another program lets end
// after the year 9999, which JSON does not have, counts as one without.
func endOf(ms int64) (ends time.Time) {
	const last = 253_402_214_400_000 // its last day, in every time zone
	if ms > 0 && ms <= last {
		ends = time.UnixMilli(ms)
	}
	return ends
}

// Undone is the reply of a script that undoes: one that leaves, releases or resets.
type Undone struct {
	Code wire.Code
	Now  wire.Stamp // the server's time; 0 if the reply has none
}

// ReadUndone reads the reply of a script that undoes.
func ReadUndone(r *wire.Reply) Undone { return Undone{Code: r.Code(), Now: r.Stamp(1)} }
