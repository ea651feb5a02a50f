// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// These are the errors that calls and leases return, for errors.Is. Errors of the locks' calls come
// wrapped as *OpError, with the operation and the name. The server's words are in the text.
// Passwords and hold ids are not.
//
// What servers reply, and what the library does then (docs/refusals.md has more):
//
//	LOADING READONLY MASTERDOWN CLUSTERDOWN    ErrRefused: Lock waits within its context;
//	TRYAGAIN BUSY NOREPLICAS MISCONF OOM       TryLock returns at once; a holder renews until its
//	max number of clients reached              deadline; Unlock continues (OOM: it succeeds)
//	NOPERM NOAUTH WRONGPASS, an ACL denial     ErrDenied: Lock and TryLock return at once; Lock waits
//	in a script, an unknown command            for what was allowed before; holders and Unlock as above
//	WRONGTYPE                                  ErrWrongKind
//	NOSCRIPT                                   the script is sent
//	MOVED ASK                                  followed by the client; ErrUnsupported if it was made
//	                                           for one server, and a node of a cluster says so
//	an error of a script of the library        ErrUnsupported
//	words of a proxy, and all others           the script may have run: Lock sends it again, TryLock
//	                                           returns them and undoes it
//
// An error matches context.DeadlineExceeded or context.Canceled only if the caller's own context
// ended. It then matches the cause of that context, too. If a time limit of the library or of the
// client ended a call, the error is ErrNoReply. The text of every error is one line.
var (
	// ErrHeld: another holder has the lock. TryLock returns it. Lock joins it with the context's
	// error if the lock was held when it last asked. Holder (Holders) asks the server who it is.
	ErrHeld = errs.ErrHeld
	// ErrLost: the lease ended without its holder's doing: not renewed in time, or taken away.
	ErrLost = errs.ErrLost
	// ErrReleased: the lease was unlocked.
	ErrReleased = errs.ErrReleased
	// ErrMaxHold: the lease was held for as long as WithMaxHold allows.
	ErrMaxHold = errs.ErrMaxHold
	// ErrNotHeld: there is nothing to unlock (the zero Lease, or a lease that was unlocked before),
	// or nothing to Downgrade. Holder and ForceUnlock return it if the lock is free.
	ErrNotHeld = errs.ErrNotHeld
	// ErrUnconfirmed: the server did not reply to the release; see UnconfirmedError. A latch
	// returns it in two more cases. In a layout of others the server did not reply to a step: the
	// step may have been done, and is not sent again, since it could count twice. Or the reply to a
	// Start was lost and 33 other rounds began before Start was sent again: its round may have
	// begun, and is over.
	ErrUnconfirmed = errs.ErrUnconfirmed
	// ErrClosed: the session, or its client, is closed.
	ErrClosed = errs.ErrClosed
	// ErrBadName: the name is empty or longer than 512 bytes, or has braces with which a layout of
	// others cannot keep its keys in one slot of a cluster.
	ErrBadName = errs.ErrBadName
	// ErrBadOption: an option, or an argument, is not valid; the text says which and why. Every
	// call returns it for a nil context.
	ErrBadOption = errs.ErrBadOption
	// ErrWrongKind: the name is in use by another kind of lock, or the key belongs to another
	// program.
	ErrWrongKind = errs.ErrWrongKind
	// ErrUpgrade: a reader asked to write. Unlock first, or take the lock to write and Downgrade.
	ErrUpgrade = errs.ErrUpgrade
	// ErrCapacity: a semaphore has fewer permits at all than were asked for, or another number than
	// semaphore.ExactCapacity insists on. Waiting does not help.
	ErrCapacity = errs.ErrCapacity
	// ErrRefused: the server refuses for now, for a reason that can pass. Lock waits until it
	// passes, and joins ErrRefused with the context's error if that ends first. TryLock returns it
	// at once. An Unlock that meets it returns an UnconfirmedError. See "What servers reply".
	ErrRefused = errs.ErrRefused
	// ErrDenied: the server denies the credentials, the command, the key or the channel. The text
	// says which right to grant, if the server's words name it.
	ErrDenied = errs.ErrDenied
	// ErrUnsupported: the call cannot succeed with this server and this client, however often it is
	// sent; the text says why, and what to do. The client was made for one server, and the address is
	// a node of a cluster; or a script of the library fails there.
	ErrUnsupported = errs.ErrUnsupported
	// ErrNoReply: the server did not reply within a time limit of the library or of the client. The
	// text says which limit. Unlock joins it with ErrUnconfirmed, and a redlock returns it if its
	// servers are silent. If the caller's own context ended, the error is the context's instead.
	ErrNoReply = errs.ErrNoReply
	// ErrBusy: as many goroutines of this session wait for the lock as WithMaxWaiters allows. Lock
	// returns it at once, and has not asked the server. Trying again later may help.
	ErrBusy = errs.ErrBusy
	// ErrNotReplicated: the lock was granted, and released again because fewer replicas than
	// WithReplicas asks for confirmed it in time. Trying again may help.
	ErrNotReplicated = errs.ErrNotReplicated
	// ErrOldServer: the server is older than Redis 6.2.
	ErrOldServer = errs.ErrOldServer

	// ErrRunning: a round of the latch is running, so that none can be started.
	ErrRunning = errs.ErrRunning
	// ErrNoRound: the latch has no round to join: none was started, the last one was reset, or the server
	// does not know it any more.
	ErrNoRound = errs.ErrNoRound
	// ErrRoundOver: the round has opened, and another one has started since: the count-down came
	// too late.
	ErrRoundOver = errs.ErrRoundOver
	// ErrReset: the round was reset, and does not open any more.
	ErrReset = errs.ErrReset
	// ErrRoundLost: the server knows nothing of the round: its key has expired, was deleted, or was
	// lost with the server's data. The round may have opened or not.
	ErrRoundLost = errs.ErrRoundLost

	// ErrStale: the function of a once ran, but its outcome was not stored: its lease was lost, or
	// unlocked, and another call may have run the function meanwhile.
	ErrStale = errs.ErrStale
	// ErrTooLarge: the value that the function of a once returned is larger than once.MaxValue. It
	// was not stored.
	ErrTooLarge = errs.ErrTooLarge
)

// OpError is an error with the operation and the name it belongs to.
type OpError struct {
	Op   string // "lock", "try lock", "unlock", ...
	Name string // the lock's, as New was given it; Error shortens it, or its digest (WithHashedNames)
	Err  error
}

// Error implements error.
func (e *OpError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return errs.OneLine(fmt.Sprintf("signalbox: %s %s: %v", e.Op, errs.Quote(e.Name), e.Err))
}

// Unwrap returns what went wrong.
func (e *OpError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// UnconfirmedError is the error of an Unlock to which the server has not replied. The lease has
// ended here.
type UnconfirmedError struct {
	// KeyEnds is when the key ends on the server at the latest, by this host's clock, unless a
	// renewal that is still on its way takes effect later.
	KeyEnds time.Time
	// Err is what the last try ended with.
	Err error
}

// Error implements error.
func (e *UnconfirmedError) Error() string {
	if e == nil {
		return "<nil>"
	}
	ends := e.KeyEnds.Add(time.Second - 1).Truncate(time.Second) // rounded up: not before
	return fmt.Sprintf("the server did not confirm the release; the hold ends by itself at %s at the latest: %v", ends.Format(time.TimeOnly), e.Err)
}

// Is makes errors.Is(err, ErrUnconfirmed) hold.
func (e *UnconfirmedError) Is(target error) bool { return target == ErrUnconfirmed }

// Unwrap returns what the last try ended with.
func (e *UnconfirmedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
