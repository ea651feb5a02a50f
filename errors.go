// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// What calls and leases answer, for errors.Is. Errors of the locks' calls come wrapped as
// *OpError, with the operation and the name; the server's words are in the text. Passwords and
// hold ids are not.
//
// What servers answer, and what becomes of it (docs/refusals.md has more):
//
//	LOADING READONLY MASTERDOWN CLUSTERDOWN    ErrRefused: Lock waits within its context, TryLock
//	TRYAGAIN BUSY NOREPLICAS MISCONF OOM       answers at once; a holder goes on trying to renew until its
//	max number of clients reached              deadline; Unlock goes on in the background (OOM: just works)
//	NOPERM NOAUTH WRONGPASS, an ACL denial     ErrDenied: Lock and TryLock answer at once; holders and
//	in a script, an unknown command            Unlock as above
//	WRONGTYPE                                  ErrWrongKind
//	NOSCRIPT                                   the script is sent
//	MOVED ASK                                  followed by the client
//
// An error matches context.DeadlineExceeded or context.Canceled only if the caller's own context
// ended. Its cause is matched too. A time limit of the library's or of the client's is ErrNoReply.
// The text of every error is one line.
var (
	// ErrHeld: somebody else holds the lock. TryLock answers it; Lock joins it with the
	// context's error when the wait ended and the last news was that the lock is held.
	ErrHeld = errs.ErrHeld
	// ErrLost: the lease ended without its holder's doing: not renewed in time, or taken away.
	ErrLost = errs.ErrLost
	// ErrReleased: the lease was unlocked.
	ErrReleased = errs.ErrReleased
	// ErrMaxHold: the lease was held for as long as MaxHold allows.
	ErrMaxHold = errs.ErrMaxHold
	// ErrNotHeld: there is nothing to unlock: the zero Lease, or one that was unlocked before; or nothing to Downgrade.
	// Nobody has the lock: Holder and ForceUnlock.
	ErrNotHeld = errs.ErrNotHeld
	// ErrUnconfirmed: the server did not answer the release; see UnconfirmedError. Or it did not answer a step of a latch in
	// Redisson's layout, which may be done or not, and is not sent again since it could count twice. Or a latch's Start
	// was not answered before 33 other rounds began: its round may have begun, and is over.
	ErrUnconfirmed = errs.ErrUnconfirmed
	// ErrClosed: the session, or its client, is closed.
	ErrClosed = errs.ErrClosed
	// ErrBadName: the name is empty or longer than 512 bytes, or has braces that Redisson's layout cannot keep in one slot
	// of a cluster.
	ErrBadName = errs.ErrBadName
	// ErrBadOption: an option, or an argument, is not valid; the text says which and why. Every call
	// returns it for a nil context.
	ErrBadOption = errs.ErrBadOption
	// ErrWrongKind: the name is in use by another kind of lock, or its key is somebody else's.
	ErrWrongKind = errs.ErrWrongKind
	// ErrUpgrade: who has the lock to read asked for it to write. Unlock first, or take it to write and Downgrade.
	ErrUpgrade = errs.ErrUpgrade
	// ErrCapacity: a semaphore has fewer permits at all than were asked for, or another number than
	// semaphore.ExactCapacity insists on. Waiting does not help.
	ErrCapacity = errs.ErrCapacity
	// ErrRefused: the server refuses for now, for a reason that can pass. Lock waits for that, and
	// joins it with the context's error where it does not pass in time; TryLock answers it at
	// once, and an Unlock that meets it is an UnconfirmedError. See "What servers answer" above.
	ErrRefused = errs.ErrRefused
	// ErrDenied: the server denies the credentials, the command, the key or the channel. The text
	// says what to grant, as far as the server's words tell.
	ErrDenied = errs.ErrDenied
	// ErrNoReply: the server did not reply within a time limit of the library's or of the client's, and
	// the text says which. It is in the error of an Unlock that is ErrUnconfirmed, and of a redlock whose
	// servers are silent. The caller's own context is never meant: if that ended, its error is there.
	ErrNoReply = errs.ErrNoReply
	// ErrNotReplicated: the lock was granted, and taken back because fewer replicas than WaitReplicas asks
	// for said in time that they have it. Trying again may help.
	ErrNotReplicated = errs.ErrNotReplicated
	// ErrOldServer: the server is older than Redis 7.0 or Valkey 7.2.
	ErrOldServer = errs.ErrOldServer

	// ErrRunning: a round of the latch is running, so that none can be started.
	ErrRunning = errs.ErrRunning
	// ErrNoRound: the latch has no round to join: none was started, the last one was reset, or the server
	// does not know it any more.
	ErrNoRound = errs.ErrNoRound
	// ErrRoundOver: the round has opened, and another one was started since: who counts down came too late.
	ErrRoundOver = errs.ErrRoundOver
	// ErrReset: the round was reset, and does not open any more.
	ErrReset = errs.ErrReset
	// ErrRoundLost: the server knows nothing of the round: its key has ended, was deleted, or was lost
	// with the server's data. Whether it had opened nobody can tell.
	ErrRoundLost = errs.ErrRoundLost
)

// OpError is an error with the operation and the name it belongs to.
type OpError struct {
	Op   string // "lock", "try lock", "unlock", ...
	Name string // the lock's, as New was given it, or its digest (WithHashedNames)
	Err  error
}

// Error implements error.
func (e *OpError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return errs.OneLine(fmt.Sprintf("signalbox: %s %q: %v", e.Op, e.Name, e.Err))
}

// Unwrap answers what went wrong.
func (e *OpError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// UnconfirmedError is the error of an Unlock that the server has not answered. The lease has
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
	return fmt.Sprintf("%v: the release; the hold ends by itself by %s: %v", ErrUnconfirmed, e.KeyEnds.Format(time.RFC3339Nano), e.Err)
}

// Is makes errors.Is(err, ErrUnconfirmed) hold.
func (e *UnconfirmedError) Is(target error) bool { return target == ErrUnconfirmed }

// Unwrap answers what the last try ended with.
func (e *UnconfirmedError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}
