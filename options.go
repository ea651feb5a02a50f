// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
)

// SessionOption sets something for a session; see NewSession and Dial.
type SessionOption func(*session.Settings)

// LockOption sets something for one lock; the primitives' New take it. If a value is not valid, or
// this kind of lock does not have the option, every call on that lock returns ErrBadOption, and so
// does its Check.
type LockOption func(*session.LockSettings)

// WithLogger sets the logger for warnings that no call can return:
//
//   - the server denies the session its unlock messages, or may evict the keys of locks: once each;
//   - the Lock of a Locker has to try again, and why: once in each Lock;
//   - Close ended a lease that was never unlocked: once for each lease, up to 20.
//
// By default the library logs only the leases that Close ended, to slog.Default(): a lease that the
// program forgot is a bug in the program. Hold ids and passwords are never logged. With
// WithHashedNames, names are logged as digests.
func WithLogger(logger *slog.Logger) SessionOption {
	return func(s *session.Settings) {
		if logger == nil {
			s.Err = fmt.Errorf("%w: the logger is nil", ErrBadOption)
			return
		}
		s.Logger = logger
	}
}

// WithCloseGrace sets how long Close waits for holders and for calls if its context has no
// deadline; 5 s by default. d is more than 0 and at most 24 h.
func WithCloseGrace(d time.Duration) SessionOption {
	return func(s *session.Settings) {
		if err := session.CheckCloseGrace(d); err != nil {
			s.Err = err
			return
		}
		s.CloseGrace = d
	}
}

// WithPrefix sets the beginning of every key and channel; "sb:" by default. Processes share locks only
// if their prefixes are equal. At most 64 bytes, no braces.
func WithPrefix(prefix string) SessionOption {
	return func(s *session.Settings) {
		if err := names.CheckPrefix(prefix); err != nil {
			s.Err = fmt.Errorf("%w: %w", errs.ErrBadOption, err)
			return
		}
		s.Prefix = prefix
	}
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

// WithLabel sets the label that the session's holds and tickets have on the server, for people who want
// to know which process has a lock. It is "host:pid" by default, and "" sets none. At most 64 bytes of
// UTF-8 without control characters. Every reader of the server can read it, so put no secrets in it.
func WithLabel(label string) SessionOption {
	return func(s *session.Settings) {
		if err := session.CheckLabel(label); err != nil {
			s.Err = err
			return
		}
		s.Label = label
	}
}

// WithDefaults sets what the session's locks start from, before their own options. A kind of lock
// that does not have one of these options ignores it. The exception is Redisson: a kind that has no
// such layout returns ErrBadOption unless its own options include Native.
func WithDefaults(options ...LockOption) SessionOption {
	return func(s *session.Settings) { session.Apply(&s.Lock, options) }
}

// RenewedLease makes leases that are renewed for as long as they are held: the key lives for
// life without a renewal, and is renewed each third of that. Before the first renewal it lives for
// less; see WithFirstLease. This is the default, with 30 s.
// From 100 ms to 24 h. A shorter life is a faster recovery from a crashed holder, and less
// patience with a server that is away.
func RenewedLease(life time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.RenewedLease)
		if err := session.CheckDuration("a renewed lease", life); err != nil {
			l.Fail(err)
			return
		}
		l.Lease, l.Fixed = life, false
	}
}

// WithFirstLease sets how long a new hold lasts before its first renewal: d, or the lease if that is
// shorter; 3 s by default. The first renewal is sent after a sixth to a third of that, and gives the
// hold its whole lease. From 100 ms to 24 h.
//
// A process that dies before the first renewal delays the others by d, and not by the whole lease.
// The price: an outage of the server, or a pause of the process, that begins before the first renewal
// and lasts longer than d ends the hold. If that is worse than the delay, set d to the lease. A hold
// with WaitReplicas lasts longer by the wait. A fixed lease has no renewal and lasts as long as it says.
// Packages election and once have d at the lease unless this option sets it: their work is long.
// In Redisson's layout holds have their whole lease from the start, as in Java, and the option is
// ErrBadOption.
func WithFirstLease(d time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.FirstLease)
		if err := session.CheckDuration("a first lease", d); err != nil {
			l.Fail(err)
			return
		}
		l.FirstLease = d
	}
}

// FixedLease makes leases that are not renewed: they are ErrLost after life, less what is
// allowed for clocks. From 100 ms to 24 h.
func FixedLease(life time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.FixedLease)
		if err := session.CheckDuration("a fixed lease", life); err != nil {
			l.Fail(err)
			return
		}
		l.Lease, l.Fixed = life, true
	}
}

// WaitReplicas makes each acquire wait, for timeout at the longest, until n replicas of the server
// confirm that they have the lock. If fewer do, the lock is released and the call returns
// ErrNotReplicated at once: it may be tried again. A failover to a replica that confirmed does not
// grant the lock twice. It is no consensus: a replica that did not confirm may be the one that is
// promoted, so n should be more than half of the replicas.
//
// Only the acquire waits. Renewals, entering again and handing over inside the process do not. n is
// from 1 to 100, timeout from 1 ms to 60 s and shorter than the lease, which counts from before the
// acquire was sent. While it waits it takes a connection of its own. It needs the right to WAIT.
func WaitReplicas(n int, timeout time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.WaitReplicas)
		if err := session.CheckReplicas(n, timeout); err != nil {
			l.Fail(err)
			return
		}
		l.Replicas = session.Replicas{Count: n, Wait: timeout}
	}
}

// WithMaxWaiters lets at most n goroutines of this session wait for the lock at once. If as many wait,
// a call that would wait returns ErrBusy at once, without asking the server: a service can refuse
// work instead of queueing it. n is 1 or more; by default there is no limit. TryLock never waits and
// has no limit, and entering again is no wait.
//
// The limit is on the name, not on the Lock value: a call counts all goroutines of the session that
// wait for the name, whatever options their locks have, and compares the number with its own n. A
// goroutine that asks the server counts as well, so of two calls for a free lock at the same moment one
// can return ErrBusy. Acquires of a semaphore, and readers with a hold of their own (FixedLease, MaxHold,
// WaitReplicas), count once the server told them to wait: those that ask it at the same moment can
// exceed n.
//
// With WaitReplicas a call that has to try again counts anew, and can return ErrBusy then.
func WithMaxWaiters(n int) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.MaxWaiters)
		if err := session.CheckMaxWaiters(n); err != nil {
			l.Fail(err)
			return
		}
		l.MaxWaiters = n
	}
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
// countdown.Keep. With Redisson and SetNX, whose keys cannot store it, the option is ErrBadOption.
func WithTokenFloor(d time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.TokenFloor)
		if err := session.CheckFloor(d); err != nil {
			l.Fail(err)
			return
		}
		l.Floor = d
	}
}

// Redisson makes a lock one of Redisson's, the Java client. Processes that take the lock with
// Redisson in Java, and processes that take a lock of that name with this option, share it. It is
// for services that move from Java to Go one after the other. Set it on one lock, or on all locks
// of a session by WithDefaults; Native takes it back for one of them. A kind that has no such
// layout returns ErrBadOption. These have one:
//
//   - reentrant: RLock, and with Fenced RFencedLock
//   - fair: RFairLock
//   - rwlock: RReadWriteLock
//   - semaphore: RPermitExpirableSemaphore, and with semaphore.Plain RSemaphore
//   - countdown: RCountDownLatch
//
// The key is the name as Redisson has it, behind its NameMapper. WithPrefix does not apply to it,
// and WithHashedNames together with this option is ErrBadOption. In a cluster a name is ErrBadName
// if its braces are not a hash tag: Redisson could not release such a lock.
//
// Some promises need more than Redisson's keys can store. With this option:
//
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Holders
//     in Java have none. But see Fenced.
//   - Holder.Since and Holder.Token are zero, and Holder.Label is the owner as Redisson writes it.
//   - A process that hands the lock over inside releases it after 1,024 times or 20 ms, even if no
//     other process is waiting.
//   - A ForceUnlock from Java is noticed by the next renewal.
//   - If a Java holder dies that gave no lease time, waiters wait for its client's
//     lockWatchdogTimeout, 30 s by default.
//   - If a waiter for a fair lock dies, on either side, the waiters behind it wait for at least 5
//     minutes, as in Java; see FairLockWaitTimeout. Each waiter asks the server once a second. A
//     Java lock() that throws because its subscription failed leaves such a ticket behind: call it
//     again in the same thread. Waiter.Since is zero, and Waiter.Label is the owner. Do not take
//     one name both as RLock and as RFairLock.
//   - Readers of a read-write lock join other readers even if a writer is waiting, as in Java: a
//     writer is granted the lock only when there are no readers. Redisson before 4.4 renews the
//     leases of other clients' readers with its own, even of readers that died. A Java reader that
//     renews makes the lock end a lockWatchdogTimeout later, so leases of readers beside it should
//     be no longer than that: use MaxHold, not a long FixedLease. Do not take one name both as
//     RLock and as RReadWriteLock.
//
// These options say what the Java clients do: Fenced, PlainChannels, ShardedChannels and
// FairLockWaitTimeout.
func Redisson(options ...RedissonOption) LockOption {
	var java redissonClients
	for _, option := range options {
		if option != nil {
			option.apply(&java)
		}
	}
	in, err := java.layout()
	return func(l *session.LockSettings) {
		l.Give(session.Redisson)
		if err != nil {
			l.Fail(err)
			return
		}
		l.Layout = in
	}
}

// RedissonOption is an option of Redisson. All clients that share a lock must agree on it.
type RedissonOption interface {
	apply(java *redissonClients)
}

const (
	// Fenced makes a reentrant lock an RFencedLock. Lease.Token is then the number that Java's
	// lockAndGetToken returns: the next one of a counter that both sides share, which rises
	// whatever clocks do. It protects only if all clients take the name as a fenced lock: an RLock,
	// and a lock without this option, share the lock and count nothing. RFencedLock.delete()
	// restarts the counter.
	//
	// The counter has a key of its own that never ends. Each holder has one number, so handing the
	// lock over inside a process takes a round trip. Entering again keeps the token; Java counts. A
	// Lock that failed may have used a number up. Other kinds of lock return ErrBadOption.
	Fenced = redissonVariant(layout.Fenced)

	// PlainChannels is for a cluster in which the Java clients do not use sharded channels: their
	// shardedSubscriptionMode is OFF, or they are older than 3.22. With the wrong channels nothing
	// is unsafe, but waiters are not woken: waiters in Go poll about once a second, waiters in Java
	// sleep until the lease would end. Outside a cluster there is only one kind of channel, and
	// neither option changes it.
	PlainChannels = redissonVariant(layout.Plain)

	// ShardedChannels is for a cluster in which the Java clients use sharded channels. That is
	// their default, and the default of this option, too. Together with PlainChannels it is for a
	// cluster in which some Java clients use them and some do not: Go publishes each release in
	// both ways, which costs a message to all nodes, and listens to both. Java clients of one sort
	// do not wake those of the other, whatever Go does.
	ShardedChannels = redissonVariant(layout.Sharded)
)

// FairLockWaitTimeout is for a fair lock whose Java clients set Config.setFairLockWaitTimeout: pass
// the same duration. It is from 4 s to 24 h; Java's default, 5 minutes, needs no option.
//
// A waiter that dies delays those behind it by about that long. If Go and Java disagree nothing is
// unsafe, but a dead waiter delays the others by the longer of the two. A waiter in Go polls about
// once a second and keeps its ticket. In a session that waits for more than 1,000 locks at once, it
// polls less often, down to once in 10 s; with a timeout below 20 s it may lose its ticket and
// queue again. Other kinds of lock return ErrBadOption.
func FairLockWaitTimeout(d time.Duration) RedissonOption { return redissonFairWait(d) }

// redissonClients holds what the options say of the Java clients.
type redissonClients struct {
	which    []layout.Variant
	fairWait *time.Duration // nil is Java's default
}

// layout returns how the locks of these clients are stored on the server.
func (j *redissonClients) layout() (*layout.Layout, error) {
	if j.fairWait == nil {
		return layout.Redisson(j.which...), nil
	}
	if slices.Contains(j.which, layout.Fenced) {
		return nil, fmt.Errorf("%w: Fenced is for a reentrant lock, FairLockWaitTimeout for a fair one", ErrBadOption)
	}
	if err := session.CheckFairWait(*j.fairWait); err != nil {
		return nil, err
	}
	return layout.RedissonFair(*j.fairWait, j.which...), nil
}

type redissonVariant layout.Variant

func (v redissonVariant) apply(java *redissonClients) {
	java.which = append(java.which, layout.Variant(v))
}

type redissonFairWait time.Duration

func (w redissonFairWait) apply(java *redissonClients) {
	d := time.Duration(w)
	java.fairWait = &d
}

// SetNX makes a reentrant lock one that other clients write by SET with NX and PX: the key is the
// name, its value is random, and it is released and renewed by scripts that compare the value. So
// signalbox shares locks with redsync on one pool, redislock, and code that does this by hand. It
// is for services that move to signalbox one after the other; docs/migration.md has the steps.
//
// The key is the name as the other clients have it, with their prefix. WithPrefix does not apply to
// it, and WithHashedNames together with this option is ErrBadOption. Other kinds of lock return
// ErrBadOption.
//
// Exclusion, renewal, re-entry and ForceUnlock are as promised for the library's own layout. These
// promises need more than a value can store. With this option:
//
//   - Waiters have no queue. They try when a session of this library released the lock, and poll
//     ten times a second, because other clients release it without a message. A process that
//     always comes first keeps the others out.
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Holds
//     of other clients have no token.
//   - Holder.Since and Holder.Token are zero. For other clients Holder.Session is empty, and
//     Holder.Label is the first 64 bytes of their value.
//   - Other clients do not notice a ForceUnlock before they renew or release.
//   - A key without an expiry keeps everybody out until it is deleted.
func SetNX() LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.SetNX)
		l.Layout = layout.SetNX()
	}
}

// Native makes a lock one in the library's own layout, which is the default. It is for single locks
// of a session that has Redisson or SetNX among its defaults. It also cancels a default of
// semaphore.Plain.
func Native() LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.Native)
		l.Given &^= session.Redisson | session.SetNX // Native cancels them
		l.Plain = l.Plain && l.Given&session.Plain != 0
		l.Layout = layout.Native()
	}
}

// MaxHold ends a renewed lease with ErrMaxHold just before d is over. It is for holders that may
// hang: renewals are trimmed so that the key ends by then even if the holder never unlocks. d is
// from 100 ms to 24 h. Without it a lease is renewed for as long as its process lives. A lock with
// MaxHold is not handed over inside the process.
func MaxHold(d time.Duration) LockOption {
	return func(l *session.LockSettings) {
		l.Give(session.MaxHold)
		if err := session.CheckDuration("a greatest hold", d); err != nil {
			l.Fail(err)
			return
		}
		l.MaxHold = d
	}
}
