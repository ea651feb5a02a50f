// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// SessionReadString is the call of session/read-string.
type SessionReadString struct{ Count string }

// AppendTo appends the arguments in the order of the header.
func (c SessionReadString) AppendTo(args []string) []string { return append(args, c.Count) }

// ReadStringCall returns the call that reads the first bytes of a string and when its key ends, of one moment.
func ReadStringCall(key string, count int) wire.Call {
	return wire.Call{Script: scripts.SessionReadString, Keys: []string{key}, Args: SessionReadString{strconv.Itoa(count)}.AppendTo(nil)}
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
