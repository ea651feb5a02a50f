// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/session"
)

// Session is the identity and the shared machinery of all locks that a process takes through
// one client: 128 random bits, one subscription connection while somebody waits or something is held for
// longer than a moment (in a cluster one to each node that has such a lock), one set of timers, one
// keeper of leases. One a client is what a process needs; two are strangers to
// each other. It is safe for concurrent use. Dial and NewSession make one; the zero Session is none, which is the
// error of every call.
//
// A session that has held nothing and waited for nothing for some seconds costs nothing: no
// goroutine, no connection of its own, no command.
type Session session.Session

// NewSession answers a session on client. It sends nothing; the first call of a lock asks the server for its time and
// age, one round trip more. The client stays the caller's: it
// is not closed by Close, and must not be closed before it. See Tune for what it should be
// like.
//
// A nil client or a bad option is the error of every call.
func NewSession(client rueidis.Client, options ...SessionOption) *Session {
	return (*Session)(session.New(client, collect(options), false))
}

// ID answers what tells the session from all others: 22 characters, random. Holder.Session of a
// lock that the session holds is the same. A nil session answers "".
func (s *Session) ID() string {
	if s == nil {
		return ""
	}
	return (*session.Session)(s).ID()
}

// Close ends the session. It refuses new work and wakes waiters with ErrClosed, waits for
// holders until ctx ends, then ends their leases (their Err is ErrLost and ErrClosed at once)
// and gives them back, for which it takes a second of its own where ctx has ended. What the
// server did not hear of by then ends there by itself, with its lease. A client from Dial is
// closed.
//
// The error tells that holders were left when ctx ended. A second call answers nil at once.
func (s *Session) Close(ctx context.Context) error { //nolint:contextcheck // Background for a nil one
	if ctx == nil {
		ctx = context.Background()
	}
	return (*session.Session)(s).Close(ctx)
}
