// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"

	"github.com/redis/rueidis"
)

// Reply is what a script returned: an integer, a text, or an array of them. A value that is no array reads as
// an array of one.
type Reply struct {
	message rueidis.RedisMessage
	array   []rueidis.RedisMessage
}

// NewReply reads the client's result.
func NewReply(result rueidis.RedisResult) (Reply, error) {
	message, err := result.ToMessage()
	if err != nil {
		return Reply{}, Explain(err)
	}
	if !message.IsArray() {
		return Reply{message: message}, nil
	}
	array, err := message.ToArray()
	if err != nil {
		return Reply{}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return Reply{array: array}, nil
}

// ofScript reads the reply to a script. The only text that one returns alone is a stamp: OK, for example, is not a script's word.
func ofScript(result rueidis.RedisResult) (Reply, error) {
	reply, err := NewReply(result)
	if err == nil && reply.message.IsString() && reply.Stamp(0) == 0 {
		return Reply{}, fmt.Errorf("%w: it is a text", ErrUnreadable)
	}
	return reply, err
}

// Part returns the i-th element as a reply of its own.
func (r *Reply) Part(i int) (Reply, error) {
	if i < 0 || i >= len(r.array) {
		return Reply{}, fmt.Errorf("%w: it is for %d keys, and one more was asked for", ErrUnreadable, len(r.array))
	}
	m := r.array[i]
	switch {
	case m.IsArray():
		array, err := m.ToArray()
		return Reply{array: array}, err
	case m.Error() != nil:
		return Reply{}, Explain(m.Error())
	}
	return Reply{message: m}, nil
}

// Len returns how many elements the reply has.
func (r *Reply) Len() int {
	if r.array == nil {
		return 1
	}
	return len(r.array)
}

func (r *Reply) at(i int) *rueidis.RedisMessage {
	switch {
	case 0 <= i && i < len(r.array):
		return &r.array[i]
	case i == 0:
		return &r.message
	}
	return &rueidis.RedisMessage{}
}

// Int returns the i-th element, or 0 if it is missing or a text.
func (r *Reply) Int(i int) int64 {
	if m := r.at(i); m.IsInt64() {
		value, _ := m.ToInt64() // it is one
		return value
	}
	return 0
}

// Text returns the i-th element, or "" if it is missing or an integer.
func (r *Reply) Text(i int) string {
	if m := r.at(i); m.IsString() {
		text, _ := m.ToString() // it is one
		return text
	}
	return ""
}

// Stamp returns the i-th element, 0 if it is no stamp.
func (r *Reply) Stamp(i int) Stamp {
	if stamp := r.onlyStamp(); stamp != 0 {
		return stamp
	}
	return ParseStamp(r.Text(i))
}

// IsOnlyStamp reports whether the whole reply is a stamp.
func (r *Reply) IsOnlyStamp() bool { return r.onlyStamp() != 0 }

// onlyStamp returns the stamp that is the whole reply, an integer and no text, or 0. It stands for {1, stamp, stamp},
// and saves the objects that the client makes of an array.
func (r *Reply) onlyStamp() Stamp {
	if r.array != nil {
		return 0
	}
	if n := r.Int(0); n >= leastOnlyStamp {
		return Stamp(n)
	}
	return 0
}

// leastOnlyStamp is less than any server's time, and greater than any code or count.
const leastOnlyStamp = 1 << 40

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
	// Marked: the hold is there, and its key is marked: a queue may exist.
	Marked Code = 5
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
	// Removed: the server had the hold in the data that it has, and it was removed.
	Removed Code = -9
)

// Code returns the code of the reply.
func (r *Reply) Code() Code {
	if r.onlyStamp() != 0 {
		return Done
	}
	return Code(r.Int(0))
}
