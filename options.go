// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// SessionOption sets something for a session; see NewSession and Dial.
type SessionOption func(*sessionSettings)

// LockOption sets something for one lock; the primitives' New take it. If a value is not valid, or
// this kind of lock does not have the option, every call on that lock returns ErrBadOption, and so
// does its Check.
type LockOption func(*lockSettings)

// checked returns an option that calls set, unless err says what is wrong with its value.
func checked(err error, set func(*session.Settings)) SessionOption {
	return func(s *session.Settings) {
		if err != nil {
			s.Err = err
			return
		}
		set(s)
	}
}

// WithCloseGrace sets how long Close waits for holders and for calls at most. If its context ends earlier, that
// counts. Without this option it is 5 s if the context has no deadline. d is more than 0 and at most 24 h.
func WithCloseGrace(d time.Duration) SessionOption {
	return checked(session.CheckCloseGrace(d), func(s *session.Settings) { s.CloseGrace = d })
}

// WithOnClose lets Close call f once, when the session's connections are closed: to end what serves them, such as a source of
// credentials. If the server is away, Close may return before. A panic of f is logged. Functions of several such options are called
// at the same time.
func WithOnClose(f func()) SessionOption {
	return func(s *session.Settings) {
		if f != nil {
			s.OnClose = append(s.OnClose, f)
		}
	}
}

// WithLazyConnect lets Dial and DialWith return at once, so that a service starts while its server is away. They return an error only for
// the URL, the options, the files, or a context that has ended.
//
// The session begins to connect in the background. Further attempts follow only while a call waits, after pauses that grow from 10 ms to a
// second. Calls behave as in an outage that begins with the session. Lock, and every other call that repeats its request, waits within
// its context. TryLock, Holder and other calls that ask once join the attempt that is under way, for dial_timeout and write_timeout at
// most. If there is none, they return the error of the last one. Of a cluster one node has to reply.
//
// Some errors show only in a reply of the server: ErrDenied, ErrOldServer, ErrUnsupported, and ErrBadOption for a database that does not
// exist, for a server that is no sentinel, and for a sentinel without master_set. Each ends the calls that wait, and the next call tries
// again. The session waits for everything else, and logs after 5 s what to do: names that do not resolve, a TLS port that is not ready,
// a proxy that replies, a server that loads its data, a replica.
//
// Before the first connection the session does not know whether the server is a cluster. Check then returns nil for a name that a cluster
// refuses, and the first call returns the error. Session.Ping is for a readiness probe.
//
// In NewSession, whose client exists already, the option is ErrBadOption.
func WithLazyConnect() SessionOption {
	return func(s *session.Settings) { s.Lazy = true }
}

// WithSentinelCredentials lets Dial and DialWith call f for each new connection to a sentinel, in place of the user and
// the password in the URL or the options. So the sentinels' password can be rotated while the session lives: open
// connections stay, and new ones get what f returns then. f is called as AuthCredentialsFn is, see Tune; that function is
// for the servers alone. If a sentinel refuses the client, the log says so, once, and once when it is accepted again.
//
// Without sentinels, and in NewSession, whose client exists already, the option is ErrBadOption.
func WithSentinelCredentials(f func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)) SessionOption {
	return func(s *session.Settings) { s.SentinelCredentials = f }
}

// WithPrefix sets the beginning of every key and channel; "sb:" by default. Processes share locks only
// if their prefixes are equal. At most 64 bytes, no braces.
func WithPrefix(prefix string) SessionOption {
	err := proto.CheckPrefix(prefix)
	if err != nil {
		err = fmt.Errorf("%w: %w", errs.ErrBadOption, err)
	}
	return checked(err, func(s *session.Settings) { s.Prefix = prefix })
}

// WithHashedNames replaces every name by a digest, in keys, channels, errors and logs. So a name, which
// may be personal data, appears nowhere outside of the process. Processes share a lock only if all of
// them hash its name, as with the prefix.
//
// The digest is the first 160 bits of the name's SHA-256, in hexadecimal, behind "%sha256-": a reader
// that knows a name can find its key. A reader that can list the keys can try names that are easy to
// guess, so this hides names from a casual reader, and not from a search. Two names share a lock if
// their digests are equal; no such pair is known.
func WithHashedNames() SessionOption {
	return func(s *session.Settings) { s.Hashed = true }
}

// WithPolling makes waiters try again after random pauses, from 2 to 250 ms, without subscribing.
// Waiters in a queue or at a latch poll ten times a second. It is for servers on which publishing costs
// more than trying, such as large clusters without sharded channels. Such a session notices a
// ForceUnlock at its next renewal.
func WithPolling() SessionOption {
	return func(s *session.Settings) { s.Polling = true }
}

// WithLabel sets the label that the session's holds and tickets have on the server, so that
// people see which process has a lock. It is "host:pid" by default, with ".." for the middle of a long host name,
// and "" sets none. At most 64 bytes of UTF-8 without control characters. It need not be unique: a session is
// identified by its ID. Every reader of the server can read it, so put no secrets in it.
func WithLabel(label string) SessionOption {
	return checked(session.CheckLabel(label), func(s *session.Settings) { s.Label = label })
}

// WithDefaults sets what the session's locks start from, before their own options. A kind of lock
// that does not have one of these options ignores it. The exception is a layout: a kind that does
// not have it returns ErrBadOption unless its own options include Native. A lock's own option replaces a
// default; two options of one call that contradict each other, such as WithRenewedLease and
// WithFixedLease, are ErrBadOption.
func WithDefaults(options ...LockOption) SessionOption {
	options = slices.Clone(options)
	return func(s *session.Settings) {
		s.AddDefaults(func(l *session.LockSettings) { session.Apply(l, options) })
	}
}

// WithRenewedLease makes leases that are renewed for as long as they are held: the key lives for
// life without a renewal, and is renewed each third of that. Before the first renewal it lives for
// less; see WithFirstLease. This is the default, with 30 s.
// From 100 ms to 24 h. A shorter life is a faster recovery from a crashed holder, and less
// patience with a server that is away.
func WithRenewedLease(life time.Duration) LockOption {
	return session.Option(proto.OptionRenewedLease, session.CheckDuration("a renewed lease", life), func(l *session.LockSettings) {
		l.Lease, l.Fixed = life, false
	})
}

// WithFirstLease sets how long a new hold lasts before its first renewal: d, or the lease if that is
// shorter; 3 s by default. The first renewal is sent after a sixth to a third of that, and gives the
// hold its whole lease. From 100 ms to 24 h.
//
// A process that dies before the first renewal delays the others by d and about a second at most, and
// not by the whole lease. The price: an outage of the server, or a pause of the process, that begins
// before the first renewal and lasts longer than d ends the hold. If that is worse than the delay, set
// d to the lease. A hold with WithReplicas lasts longer by the wait. A fixed lease lasts as long as it
// says. A hold that the server's queue granted begins with 3 s at most, whatever d is.
// Packages election and once have d at the lease unless this option sets it: their work is long.
// In layouts of others holds have their whole lease from the start, and the option is
// ErrBadOption.
func WithFirstLease(d time.Duration) LockOption {
	return session.Option(proto.OptionFirstLease, session.CheckDuration("a first lease", d), func(l *session.LockSettings) {
		l.FirstLease = d
	})
}

// WithFixedLease makes leases that are not renewed: they are ErrLost after life, less what is
// allowed for clocks. From 100 ms to 24 h.
func WithFixedLease(life time.Duration) LockOption {
	return session.Option(proto.OptionFixedLease, session.CheckDuration("a fixed lease", life), func(l *session.LockSettings) {
		l.Lease, l.Fixed = life, true
	})
}

// WithReplicas makes each acquire wait, for timeout at the longest, until n replicas of the server
// confirm that they have the lock. If fewer do, the lock is released and the call returns
// ErrNotReplicated at once: it may be tried again. A failover to a replica that confirmed does not
// grant the lock twice. It is no consensus: a replica that did not confirm may be the one that is
// promoted, so n should be more than half of the replicas. n is from 1 to 100, timeout from 1 ms to 60 s and
// shorter than the lease, which counts from before the acquire was sent. By default no replica is waited for.
//
// Only the acquire waits. Renewals, entering again and handing over inside the process do not. While it waits it
// takes a connection of its own. It needs the right to WAIT.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return session.Option(proto.OptionReplicas, session.CheckReplicas(n, timeout), func(l *session.LockSettings) {
		l.Replicas = session.Replicas{Count: n, Wait: timeout}
	})
}

// WithMaxWaiters lets at most n goroutines of this session wait for the lock at once. If as many wait,
// a call that would wait returns ErrBusy at once, without asking the server: a service can refuse
// work instead of queueing it. n is 1 or more; by default there is no limit. TryLock never waits and
// has no limit, and entering again is no wait.
//
// The limit is on the name, not on the Lock value: a call counts all goroutines of the session that
// wait for the name, whatever options their locks have, and compares the number with its own n. A
// goroutine that asks the server counts as well, so of two calls for a free lock at the same moment one
// can return ErrBusy. Acquires of a semaphore, and readers, do not count while they ask the server, only
// once they wait: those that ask it at the same moment can exceed n.
//
// With WithReplicas a call that has to try again counts anew, and can return ErrBusy then.
func WithMaxWaiters(n int) LockOption {
	return session.Option(proto.OptionMaxWaiters, session.CheckMaxWaiters(n), func(l *session.LockSettings) { l.MaxWaiters = n })
}

// WithTokenFloor sets how long the server remembers an idle name: for d after its last release, one
// minute by default. d is from 1 s to 24 h.
//
// A longer time protects fencing against a server's clock that is set back, by a step or by a
// failover. Tokens come from that clock, and the server remembers the last token of a name. While
// it does, tokens rise whatever the clock does. After that they rise unless the clock is set back
// by more than the time since the last release. So after a release a step back by less than d is
// harmless. If a holder dies instead, its key can end with its lease. Then only a step back by less
// than the time since its last renewal, or since its acquire, is harmless.
//
// A longer time costs memory: about (170 + len(prefix) + len(name)) bytes for each name, for d
// after its last release. 1,000 fresh names a second need 11 MB with the default, and 0.7 GB with
// an hour.
//
// A release uses the option of its own lock, and so does ForceUnlock. A semaphore remembers a
// capacity that was set by SetCapacity for at least an hour. A latch has no tokens; see
// countdown.Keep. In layouts of others, whose keys cannot store it, the option is
// ErrBadOption.
func WithTokenFloor(d time.Duration) LockOption {
	err := session.CheckRange("a token floor kept for %v", d, session.MinFloor, session.MaxFloor)
	return session.Option(proto.OptionTokenFloor, err, func(l *session.LockSettings) { l.Floor = d })
}

// WithMaxHold ends a renewed lease with ErrMaxHold just before d is over. It is for holders that may
// hang: renewals are trimmed so that the key ends by then even if the holder never unlocks. d is
// from 100 ms to 24 h. Without it a lease is renewed for as long as its process lives. A lock with
// this option is not handed over inside the process.
func WithMaxHold(d time.Duration) LockOption {
	return session.Option(proto.OptionMaxHold, session.CheckDuration("the longest hold", d), func(l *session.LockSettings) {
		l.MaxHold = d
	})
}

// WithKeepWarm lets the session keep the lock after its last Unlock, for up to d, until another session wants it. The
// next Lock or TryLock of the session takes no round trip within 20 ms of the server's last reply about the lock: about a microsecond
// instead of two round trips a pair. Later it takes one, which asks whether the lock is there still. So if the server loses it, by a flush
// or a failover, uses may begin for 20 ms more, as in a turn. It is an option of reentrant, for a lock that one process uses again and again
// and that others want seldom. d is at most a minute; 0, the default, keeps nothing.
//
// A kept lock that no goroutine uses is idle. Another session that wants it sends a message, a recall: an idle lock is
// released at once, and a lock in use when its turn ends, as ever. So a waiter elsewhere waits one message and one
// script longer than for a free lock. The exceptions:
//
//   - If the message is lost, or the waiter is a client that does not send it, the next renewal finds the waiter, about a
//     second later. Until then the session may begin further uses.
//   - If the process dies while the lock is idle, others wait for its first lease, at most 3 s, whatever d is; with
//     WithReplicas longer by the wait.
//   - TryLock of another session returns ErrHeld for an idle lock; an rwlock and a redlock of the name find it held. They recall it,
//     and then it is not kept for a second; after a further one for twice the time since the one before, up to an hour. So
//     calls in regular intervals, of less than an hour, find it free two times of three, and ever more often.
//
// Each use has a token of its own. Nothing is kept if a waiter is known, with WithPolling or while messages do not
// arrive, after a use that lasted so long that the lease was renewed for more than the first one, or when the session
// keeps 1,024 locks already. After 1,024 uses the lock is released and acquired anew. Close releases idle locks first.
//
// An idle lock costs others a message for each first waiter and each failed try, and the server a renewal a second: all
// idle locks of a session are renewed together, 256 in a script of 0.4 ms.
//
// It is ErrBadOption with WithFixedLease or WithMaxHold, whose time counts from the grant, with a first lease of more than
// 3 s (WithFirstLease), and in layouts of others.
// Locks of a session that have the same lease, first lease and replicas use the idle lock, whether they have this option
// or not. Every other request of the session for the name, such as fair or another lease, first releases it.
func WithKeepWarm(d time.Duration) LockOption {
	err := session.CheckRange("an idle hold kept for %v", d, 0, session.MaxKeepWarm)
	return session.Option(proto.OptionKeepWarm, err, func(l *session.LockSettings) { l.KeepWarm = d })
}

// WithWanted lets the holder of a lock learn that another session waits for it: the channel of Lease.Wanted is closed. Nothing is
// taken away. It is for work that can stop at many places, such as a long scan, and should let others in. It is an option of reentrant
// and fair; a multilock has it if a member has.
//
// The channel is closed when the server says that a living session other than the holder's has a ticket in the queue. Goroutines of
// the holder's own session do not close it, nor does TryLock, an rwlock or a redlock of the name. A waiter that gives up later does not
// open it again.
//
// The holder learns of a waiter:
//
//   - by a message, as soon as the queue forms. A hold that is shorter than 100 ms may end without it: then the session is not
//     subscribed.
//   - if the message is lost, with WithPolling, or if the waiter has an older release, by the next renewal: within a third of the first
//     lease after the grant, by default a second, later within a third of the lease. A holder that was granted the lock by the queue
//     learns of the waiters behind it by its first renewal. Beside WithKeepWarm only the first waiter since the lock was free sends a message, also if it is of the
//     holder's session, or gives up: the holder learns of all others by renewals. None comes in the last lease before the end that
//     WithMaxHold sets.
//
// A message or a mark at the server is only a hint: the session asks, with one script for each lock, in one pipeline. An uncontended lock costs
// what it costs without the option. Its renewals go in a script of their own; after a wait at the server each of them is followed by the
// question until the channel is closed.
//
// Goroutines of a session that use the option share no ticket with those that do not. It is ErrBadOption with WithFixedLease, and
// in layouts of others.
func WithWanted() LockOption {
	return session.Option(proto.OptionWanted, nil, func(l *session.LockSettings) { l.Wanted = true })
}

// Layout is how a lock is stored on the server: Native, or a layout of other clients. Such a layout has a package of its
// own, whose function Layout returns it; docs/migration.md lists them. The zero value is Native.
type Layout opaqueLayout

// WithLayout sets how the lock is stored on the server, so that other clients can share it. Set it on
// one lock, or on all locks of a session by WithDefaults; WithLayout(Native()) cancels such a default
// for one lock. All processes that share a lock must agree on its layout. A kind that does not have the
// layout returns ErrBadOption.
func WithLayout(l Layout) LockOption {
	return func(s *session.LockSettings) {
		in, err := session.LayoutHandle(l).Layout()
		if err != nil {
			s.Fail(err)
			return
		}
		s.GiveLayout(in)
	}
}

// Native is the library's own layout, which is the default. As an option it also cancels a default of
// semaphore.Plain.
func Native() Layout { return Layout{} }
