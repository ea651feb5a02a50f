// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

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
	Start:        scripts.CountdownStart,
	Count:        scripts.CountdownCount,
	Poll:         scripts.CountdownRead,
	Reset:        scripts.CountdownReset,
	StartArgs:    CountdownStart.AppendTo,
}
