// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Layout is how a lock is stored on the server: Native, or a layout of other clients. Such a layout has a package of its
// own, whose function Layout returns it; docs/migration.md lists them. The zero value is Native.
type Layout session.LayoutHandle

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

// Redisson is the layout of Redisson, the Java client. Processes that acquire a lock with Redisson in
// Java, and processes that acquire a lock of that name in this layout, share it. It is for services
// that move from Java to Go one after the other. These kinds have it:
//
//   - reentrant: RLock, and with Fenced RFencedLock
//   - fair: RedissonFairLock
//   - rwlock: RReadWriteLock
//   - semaphore: RPermitExpirableSemaphore, and with semaphore.Plain RSemaphore
//   - countdown: RCountDownLatch
//
// The key is the name as Redisson has it, behind its NameMapper. WithPrefix does not apply to it,
// and WithHashedNames together with this layout is ErrBadOption. In a cluster a name is ErrBadName
// if its braces are not a hash tag: Redisson could not release such a lock.
//
// Some promises need more than Redisson's keys can store. In this layout:
//
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Holders
//     in Java have no tokens. But see Fenced.
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
//     one name both as RLock and as RedissonFairLock.
//   - Readers of a read-write lock join other readers even if a writer is waiting, as in Java: a
//     writer is granted the lock only when there are no readers. Redisson before 4.4 renews the
//     leases of other clients' readers with its own, even of readers that died. A Java reader that
//     renews makes the lock end a lockWatchdogTimeout later, so leases of readers beside it should
//     be no longer than that: use WithMaxHold, not a long WithFixedLease. Do not take one name both as
//     RLock and as RReadWriteLock.
//
// These options say what the Java clients do: Fenced, PlainChannels, ShardedChannels and
// FairLockWaitTimeout.
func Redisson(options ...RedissonOption) Layout {
	var java redissonClients
	for _, option := range options {
		if option != nil {
			option.apply(&java)
		}
	}
	in, err := java.layout()
	return Layout(session.NewLayoutHandle(in, err))
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
	PlainChannels = redissonVariant(layout.PlainChannels)

	// ShardedChannels is for a cluster in which the Java clients use sharded channels. That is
	// their default, and the default of this option, too. Together with PlainChannels it is for a
	// cluster in which some Java clients use them and some do not: Go publishes each release in
	// both ways, which costs a message to all nodes, and listens to both. Java clients of one sort
	// do not wake those of the other, whatever Go does.
	ShardedChannels = redissonVariant(layout.ShardedChannels)
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
func (r *redissonClients) layout() (*layout.Layout, error) {
	if r.fairWait == nil {
		return layout.Redisson(r.which...), nil
	}
	if slices.Contains(r.which, layout.Fenced) {
		return nil, fmt.Errorf("%w: Fenced is for a reentrant lock, FairLockWaitTimeout for a fair one", ErrBadOption)
	}
	if err := session.CheckFairWait(*r.fairWait); err != nil {
		return nil, err
	}
	return layout.RedissonFair(*r.fairWait, r.which...), nil
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
