// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Each call of a script is a struct with the arguments that the script's header describes, and each reply one with what it says. Those of
// one kind are in its file, after the scripts that the library sends, in their present versions. Scripts of package wire stand there.

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

// AcquireOne is what the call of lock/acquire-many has for each lock.
type AcquireOne struct{ Ticket, LifeMS, NotAfter, Label string }

// AppendTo appends the arguments in the order of the header.
func (c AcquireOne) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.LifeMS, c.NotAfter, c.Label)
}

// ReadAcquiredOne returns the stamp of the n-th lock, which lock/acquire-many acquired, or 0 if it did not.
func ReadAcquiredOne(r *wire.Reply, n int) wire.Stamp {
	part, err := r.Part(n)
	if err != nil {
		return 0
	}
	return part.Stamp(0)
}

// ReleaseOne is what the call of lock/release-many has for each lock.
type ReleaseOne struct{ Ticket, Used, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c ReleaseOne) AppendTo(args []string) []string {
	return append(args, c.Ticket, c.Used, c.KeepMS)
}

// SessionReadString is the call of session/read-string.
type SessionReadString struct{ Count string }

// AppendTo appends the arguments in the order of the header.
func (c SessionReadString) AppendTo(args []string) []string { return append(args, c.Count) }

// SessionReadStringScript returns the beginning of a string.
//
//nolint:gochecknoglobals // a constant in all but name
var SessionReadStringScript = mustLoad("session/read-string", 1)

// ReadStringCall returns the call that reads the first bytes of a string and when its key ends, of one moment.
func ReadStringCall(key string, count int) wire.Call {
	return wire.Call{Script: SessionReadStringScript, Keys: []string{key}, Args: SessionReadString{strconv.Itoa(count)}.AppendTo(nil)}
}

// StringHead is the reply of session/read-string.
type StringHead struct {
	Head string    // the first bytes; "" without a key
	Ends time.Time // when the key ends; the zero time if it has no end
}

// ReadStringHead reads the reply of session/read-string.
func ReadStringHead(r *wire.Reply) StringHead {
	return StringHead{Head: r.Text(0), Ends: endOf(r.Int(1))}
}

// Greeting is the reply of session/hello.
type Greeting struct {
	IsNew         bool       // the server is new enough
	Now           wire.Stamp // the server's time
	Limit, Policy string     // its maxmemory and maxmemory-policy; "" if they are not available
	Sharded       bool       // it has sharded channels
}

// ReadGreeting reads the reply of session/hello.
func ReadGreeting(r *wire.Reply) Greeting {
	return Greeting{IsNew: r.Int(0) != 0, Now: r.Stamp(1), Limit: r.Text(2), Policy: r.Text(3), Sharded: r.Int(4) != 0}
}

// ReadNumber reads the reply of a command that is one number.
func ReadNumber(r *wire.Reply) int64 { return r.Int(0) }

// ReadText reads the reply of a command that is one text: "" if it is none.
func ReadText(r *wire.Reply) string { return r.Text(0) }

// RetryAcquire is the call of Retry.Acquire. Terms are those of the layout, and then those of the request.
type RetryAcquire struct {
	Hold, TTLMS, NotAfter, Verb, Channel, Waits string
	Terms                                       []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetryAcquire) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.TTLMS, c.NotAfter, c.Verb, c.Channel, c.Waits), c.Terms...)
}

// RetrySwap is the call of Retry.Swap. Terms are those of the request.
type RetrySwap struct {
	Hold, TTLMS, NotAfter, Old, Verb, Channel string
	Terms                                     []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetrySwap) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.TTLMS, c.NotAfter, c.Old, c.Verb, c.Channel), c.Terms...)
}

// RetryRelease is the call of Retry.Release. Terms are those of the layout.
type RetryRelease struct {
	Hold, Verb, Channel string
	Terms               []string
}

// AppendTo appends the arguments in the order of the header.
func (c RetryRelease) AppendTo(args []string) []string {
	return append(append(args, c.Hold, c.Verb, c.Channel), c.Terms...)
}

// Tried is the reply to Retry.Acquire and Retry.Swap.
type Tried struct {
	Code     wire.Code
	Now      wire.Stamp    // 0 if the reply cannot be read, or has no time; the stamp of the hold, if the code is wire.Done
	Token    int64         // that of the hold, in a layout that counts its tokens; else 0
	Counts   bool          // the layout counts its tokens
	Left     time.Duration // for how long a poll is useless, if the code is wire.NotDone; negative if that is not known
	Kind     string        // the kind that has the name, if the code is wire.Foreign
	Capacity int64         // how many permits there are, if the code is wire.TooFew or wire.OtherCapacity
}

// ReadTried reads the reply to a try.
func ReadTried(r *wire.Reply) Tried {
	t := Tried{Code: r.Code()}
	switch t.Code {
	case wire.Done:
		t.Now, t.Token, t.Counts = r.Stamp(1), r.Int(2), r.Len() > 2
	case wire.NotDone:
		t.Left, t.Now = milliseconds(r.Int(1)), r.Stamp(2)
	case wire.Late:
		t.Now = r.Stamp(1)
	case wire.Foreign:
		t.Kind = r.Text(1)
	case wire.TooFew, wire.OtherCapacity:
		t.Capacity = r.Int(1)
	default:
	}
	return t
}

// RetryReleased is the reply to Retry.Release.
type RetryReleased struct {
	WasHeld bool
	Now     wire.Stamp
	IsHeard bool // a session listens to the message
}

// ReadRetryReleased reads the reply to a release.
func ReadRetryReleased(r *wire.Reply) RetryReleased {
	return RetryReleased{r.Code() != wire.NotDone, r.Stamp(1), r.Int(2) == 1}
}

// mustLoad returns a script in a version. A retired version stays in its folder.
func mustLoad(name string, version int) *scripts.Script { //nolint:unparam // a script that changes after the first release has a 2
	s := scripts.Load(name, version)
	if s == nil {
		panic(fmt.Sprintf("no script %s v%d", name, version)) //nolint:forbidigo // a mistake in this file, which the first test finds
	}
	return s
}
