// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"strconv"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// Countdown is a kind.
//
//nolint:gochecknoglobals // a constant table
var Countdown = Kind{
	Name:     "countdown",
	Options:  OptionKeep,
	InLayout: func(l *Layout) bool { return l.Latch != nil },
	Key:      Set.Latch,
	Read:     readLatch,
	IsHeld:   true,
	Summary:  func(u *Use) string { return fmt.Sprintf("%d of %d missing", u.Left, u.Total) },
}

// The scripts of the latch.
//
//nolint:gochecknoglobals // constants in all but name
var (
	CountdownStartScript = mustLoad("countdown/start", 1)
	CountdownCountScript = mustLoad("countdown/count", 1)
	CountdownReadScript  = mustLoad("countdown/read", 1)
	CountdownResetScript = mustLoad("countdown/reset", 1)
)

// The fields of a latch's round, and its length; scripts/README.md has them.
const (
	roundSize = 65
	counting  = 'c'
)

func readLatch(i *Inspection) {
	var value string
	key := []string{i.Key}
	i.Query(wire.Call{Command: "HGET", Keys: key, Args: []string{"round"}}, func(reply wire.Reply) { value = reply.Text(0) })
	i.Query(wire.Call{Command: "HLEN", Keys: key}, func(reply wire.Reply) {
		size := int(reply.Int(0))
		switch {
		case size == 0:
		case len(value) != roundSize || value[:3] != "sb1":
			i.SetForeign()
		case value[19] == counting:
			i.InUse = true
			i.Use.Since = wire.ParseStamp(value[3:19]).Time()
			i.Use.Total, _ = strconv.Atoi(value[47:55]) // 0 if another program wrote it
			i.Use.Left = max(i.Use.Total-(size-2), 0)   // all fields but round and past are ids
		}
	})
}

// LatchTable is the count-down latch in a layout.
type LatchTable struct {
	// RegistryName is the name of the registry that has the latches of this layout in a session.
	RegistryName string
	// Key returns the key of a latch, and EndedChannel the channel on which the end of a round is published.
	Key, EndedChannel func(n Set) string

	Start, Count, Poll, Reset *scripts.Script
	// StartArgs appends the arguments of Start.
	StartArgs func(c CountdownStart, args []string) []string
	// PollArgs appends the arguments of Poll, whose Fence is what Evidence returned, or "". It is nil if Poll has none.
	PollArgs func(c CountdownPoll, args []string) []string

	// SoleRound is the stamp of all rounds, if the server cannot distinguish them; 0 if each has its own. No waiter shares
	// the evidence of an earlier one then: that may be about another round.
	SoleRound wire.Stamp
	// StepsOnce says that a step of unknown outcome is neither sent again nor undone: it would count another time, or in
	// another round.
	StepsOnce bool
	// NewEvidence returns the evidence of a waiter for a round. It is nil if messages are the records that countdown/count
	// publishes.
	NewEvidence func(round wire.Stamp) Evidence
}

// Evidence is what messages and polls have said of the end of a round that is waited for.
type Evidence interface {
	// Fence returns the text that the next poll publishes if it finds the latch running, or "". fence is what the evidence
	// of another waiter returned for that poll, or "".
	Fence(fence string) string
	// OnRunning is called when a poll has found the round running, with its nonce. It reports whether to poll again at once.
	OnRunning(nonce string) (again bool)
	// OnMessage is called for each message of the latch's channel. It calls end if the round is over, with what the
	// waiter's call returns, and reports whether to poll at once.
	OnMessage(message string, end func(err error)) (poll bool)
}

//nolint:gochecknoglobals // a constant table
var nativeLatch = LatchTable{
	RegistryName: "countdown",
	Key:          Set.Latch,
	EndedChannel: Set.Ended,
	Start:        CountdownStartScript,
	Count:        CountdownCountScript,
	Poll:         CountdownReadScript,
	Reset:        CountdownResetScript,
	StartArgs:    CountdownStart.AppendTo,
}

// CountdownStart is the call of countdown/start. In a layout of others, which publishes at a start, it ends otherwise.
type CountdownStart struct {
	Begun, Total, KeepMS, NotAfter, First string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c CountdownStart) AppendTo(args []string) []string {
	return append(args, c.Begun, c.Total, c.KeepMS, c.NotAfter, c.First)
}

// AppendPublishing is AppendTo of a layout that publishes at a start.
func (c CountdownStart) AppendPublishing(args []string) []string {
	return append(args, c.Begun, c.Total, c.KeepMS, c.NotAfter, c.Verb, c.Channel)
}

// CountdownStarted is the reply to a start.
type CountdownStarted struct {
	Code  wire.Code
	Stamp wire.Stamp // that of the round
	Now   wire.Stamp // the server's time; 0 if the reply has none
}

// ReadCountdownStarted reads the reply to a start.
func ReadCountdownStarted(r *wire.Reply) CountdownStarted {
	if r.Code() == wire.Done {
		return CountdownStarted{Code: wire.Done, Stamp: r.Stamp(1), Now: r.Stamp(2)}
	}
	return CountdownStarted{Code: r.Code(), Now: r.Stamp(1)}
}

// CountdownCount is the call of countdown/count.
type CountdownCount struct {
	Round, ID string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c CountdownCount) AppendTo(args []string) []string {
	return append(args, c.Round, c.ID, c.Verb, c.Channel)
}

// CountdownReset is the call of countdown/reset.
type CountdownReset struct {
	Begun string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c CountdownReset) AppendTo(args []string) []string {
	return append(args, c.Begun, c.Verb, c.Channel)
}

// CountdownPoll is the call of a poll in a layout of others, which publishes the fence. That of countdown/read has no arguments.
type CountdownPoll struct {
	Fence string
	Publish
}

// AppendTo appends the arguments in the order of the header.
func (c CountdownPoll) AppendTo(args []string) []string {
	return append(args, c.Fence, c.Verb, c.Channel)
}

// CountdownState is what a reply says of a latch: both fields of its key, and how many ids are missing.
type CountdownState struct {
	Code        wire.Code
	Value, Past string
	Left        int
}

// ReadCountdownCounted reads the reply to a count. One that is done says only how many are missing, and another one not that.
func ReadCountdownCounted(r *wire.Reply) CountdownState {
	return CountdownState{Code: r.Code(), Value: r.Text(1), Past: r.Text(2), Left: int(r.Int(1))}
}

// ReadCountdownState reads the reply to a poll.
func ReadCountdownState(r *wire.Reply) CountdownState {
	return CountdownState{Code: r.Code(), Value: r.Text(1), Past: r.Text(2), Left: int(r.Int(3))}
}
