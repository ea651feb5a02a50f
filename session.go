// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Session is the identity of a process in its locks, and what they share: one connection for messages
// while a goroutine waits or a lock is held for longer than a moment (in a cluster one to each node
// that has such a lock), one set of timers, and the renewal of all leases. Use one Session for each
// process: two sessions exclude each other as two processes do. It is safe for concurrent use. Dial and
// NewSession make one; every call with the zero Session returns an error.
//
// A session that has held nothing and waited for nothing for some seconds costs nothing: no
// goroutine, no connection of its own, no command.
type Session opaqueSession

// NewSession returns a session on client. It sends nothing: the first call of a lock asks the server
// for its time and age, which takes one more round trip. Close does not close the client. Close the
// session before the client. See Tune for the options that a client needs.
//
// If the client is nil or an option is not valid, every call returns the error.
func NewSession(client rueidis.Client, options ...SessionOption) *Session {
	set := collect(options)
	if set.SentinelCredentials != nil {
		set.Err = cmp.Or(set.Err, fmt.Errorf("%w: WithSentinelCredentials is for Dial, which makes the client", ErrBadOption))
	}
	if set.Lazy {
		set.Err = cmp.Or(set.Err, fmt.Errorf("%w: WithLazyConnect is for Dial, which makes the client", ErrBadOption))
	}
	return (*Session)(session.New(client, set, false).Handle())
}

// ID returns the identity of the session: 22 random characters. Holder.Session of a lock that the
// session holds is the same. The ID of a nil session is "".
func (s *Session) ID() string {
	return (*session.Handle)(s).Session().ID()
}

// IdleLocks returns how many locks the session keeps at the moment while no goroutine uses them; see WithKeepWarm.
func (s *Session) IdleLocks() int { return (*session.Handle)(s).Session().IdleLocks() }

// Logger returns the logger of the session: that of WithLogger, or slog.Default(). What serves the session, such as a source of
// credentials, logs there.
func (s *Session) Logger() *slog.Logger { return (*session.Handle)(s).Session().Logger() }

// Ping asks the server whether it replies, in one round trip: for a readiness probe. It runs the script that checks the server's age, so
// it also shows that scripts may be run. Calls share a request. In a cluster it asks one node, that of a slot which the prefix decides.
//
// Like every call without a second try it returns the reason at once if the server refuses or cannot be reached. Do not restart a process
// because of it: that brings no server back, and ends leases that the session would keep.
func (s *Session) Ping(ctx context.Context) error {
	if err := (*session.Handle)(s).Session().Ping(ctx); err != nil {
		return fmt.Errorf("signalbox: ping: %w", err)
	}
	return nil
}

// Close ends the session. It refuses new work, wakes waiters with ErrClosed, and blocks until every
// lease is unlocked and every call has returned, or until ctx ends or the time of WithCloseGrace, whichever is
// earlier. With neither a deadline nor that option Close blocks for 5 s at most. So
// "defer session.Close(context.Background())" always returns. A context that has ended, such as one
// that SIGTERM cancels, ends the leases at once, also those of work that is about to finish.
//
// When that time is over, Close ends the leases that are left: their Err is ErrLost and ErrClosed
// at once. It logs each of them, up to 20, with the kind of the lock, its name and how long it was
// held. The log goes to the session's logger, or to slog.Default() if it has no logger. Of a
// multilock it logs at least one member. Then Close releases the leases and waits for hooks of the
// observer, which takes one more second at most. A lease whose release does not reach the server in that time expires there by
// itself. A client from Dial is closed.
//
// Close returns an error if it had to end leases or calls. If another Close is running, Close
// blocks until that one is done, and returns an error if ctx or the grace ends first. Once the
// session is closed, Close returns nil.
func (s *Session) Close(ctx context.Context) error { return (*session.Handle)(s).Session().Close(ctx) }

// What the types of this package are made of. Their documentation shows these names, which say that there is nothing to see; the
// packages of the module convert to the types behind them.
type (
	opaqueSession = session.Handle
	opaqueLease   = hold.Lease
	opaqueLocker  = hold.SyncLocker
	opaqueLayout  = session.LayoutHandle
	opaquePlace   = session.PlaceHandle

	sessionSettings = session.Settings
	lockSettings    = session.LockSettings
)
