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
