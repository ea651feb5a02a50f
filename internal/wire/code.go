// SPDX-License-Identifier: Apache-2.0

package wire

// Code is the first element of most replies: what became of the call. Each code means the same in all
// scripts. scripts/README.md says what a client has to do for each.
type Code int64

// The codes of replies.
const (
	// Done: the call did what it is for.
	Done Code = 1
	// NotDone: the lock is another's, or what the call is for is not there.
	NotDone Code = 0
	// HadTicket: the attempt had a ticket, which is removed.
	HadTicket Code = 2
	// MayQueue: the hold is released. Only the holder key was sent, and the attempt may have a ticket.
	MayQueue Code = 3
	// ReleasedOnly: the hold is released, and what was to follow it is not done.
	ReleasedOnly Code = 4
	// Late: it came after its not-after, and did nothing.
	Late Code = -1
	// Foreign: the name belongs to another kind of lock, or the key to another program. The kind is the
	// next element.
	Foreign Code = -2
	// NeedsQueue: nothing is done, since the call needs the queue.
	NeedsQueue Code = -3
	// TooFew: the semaphore has fewer permits than were asked for.
	TooFew Code = -4
	// OtherCapacity: the semaphore has another number of permits, and the caller wants that one alone.
	OtherCapacity Code = -5
	// Forgotten: a start was sent again so late that the server cannot say what became of it.
	Forgotten Code = -6
	// TooYoung: the server is new, or lost its data lately, and grants nothing yet.
	TooYoung Code = -7
	// Refused: the server refused the commands for this key of a batch.
	Refused Code = -8
)

// Code returns the code of the reply.
func (r *Reply) Code() Code {
	if r.onlyStamp() != 0 {
		return Done
	}
	return Code(r.Int(0))
}
