// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

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
