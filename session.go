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

// NewSession returns a session on client. It sends nothing; the first call of a lock asks the server for its time and
// age, one round trip more. The client stays the caller's: it
// is not closed by Close, and must not be closed before it. See Tune for what it should be
// like.
//
// A nil client or a bad option is the error of every call.
func NewSession(client rueidis.Client, options ...SessionOption) *Session {
	return (*Session)(session.New(client, collect(options), false))
}

// ID returns what tells the session from all others: 22 characters, random. Holder.Session of a
// lock that the session holds is the same. A nil session answers "".
func (s *Session) ID() string {
	if s == nil {
		return ""
	}
	return (*session.Session)(s).ID()
}

// Close ends the session. It refuses new work, wakes waiters with ErrClosed, and blocks until every
// lease is unlocked and every call has returned, or until ctx ends. If ctx has no deadline, Close
// blocks for 5 s at most; WithCloseGrace changes that. So "defer session.Close(ctx)" always
// returns.
//
// When that time is over, Close ends the leases that are left: their Err is ErrLost and ErrClosed
// at once. It logs each of them, up to 20, with the kind of the lock, its name and how long it was
// held. The log goes to the session's logger, or to slog.Default() if the session has none. Of a
// multilock it logs at least one member. Then Close releases the leases, which takes one more
// second at most. A lease whose release does not reach the server in that time expires there by
// itself. A client from Dial is closed.
//
// Close returns an error if it had to end leases or calls. If another Close is running, Close
// blocks until that one is done, and returns an error if ctx or the grace ends first. Once the
// session is closed, Close returns nil.
func (s *Session) Close(ctx context.Context) error { return (*session.Session)(s).Close(ctx) }
