// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Observer has the hooks that a session calls when something happens to its locks; see WithObserver. A hook
// that is nil is not called. Module contrib/otel makes one for OpenTelemetry.
//
//	observer := signalbox.Observer{
//		Lost: func(_ context.Context, e signalbox.Event) { lost.WithLabelValues(e.Kind, e.Outcome).Inc() },
//	}
//
// # Guarantees
//
//  1. Each call of Waiting is followed by one of Acquired or Refused; each Acquired by one of Released or Lost.
//     A gauge that the first raises and the second lowers is 0 when nothing waits, or nothing is held.
//  2. A lease that enters again (Lease.Enter) calls no hook: its first entry did.
//  3. Hooks run under no lock of the library. A slow hook delays the call that it is about, and no other call, no
//     renewal and no hand-over.
//  4. A panic of a hook is recovered and logged as an error. The lock stays as if the hook had returned.
//  5. Session.Close blocks until each Lost, Renewed, Polling and Subscribed, and each hook of a member, has returned, for as
//     long as it waits for releases. The other hooks return before the call that they are about.
//  6. Each MemberJoined is followed by one MemberLeft, and each ShardGranted by one ShardReleased. The hooks of one member are
//     called in order, on a goroutine of their own, with the context of Join or Run without its end: they delay nothing, and come
//     a moment later. So are Renewed, Polling and Subscribed. Of those, a Renewed is left out while 1,024 hooks wait for one that blocks.
//
// # Not guaranteed
//
// An order between goroutines: the next holder's Acquired may come before this holder's Released, which
// follows the reply to the release. Hooks of different calls run at the same time, so they must be safe for
// that. A countdown holds nothing and calls only Polling and Subscribed.
//
// # Which call counts
//
// A redlock and a multilock call each hook once for the whole lock: a redlock those of the first session, a
// multilock those of one of its sessions, the same for each call. A once calls the hooks for its claim: of one
// that has to wait, a Refused with the outcome "held" comes first.
type Observer struct {
	// Waiting is called before a call asks for a lock. Later hooks about the call, and about its lease, are called
	// with the context that it returns, or with its own if it returns nil. The call itself uses its own.
	Waiting func(ctx context.Context, e Event) context.Context
	// Acquired is called when a call has acquired the lock, before the call returns. The context that it returns is
	// that of the lease; nil is its own. The session keeps it until the lease ends.
	Acquired func(ctx context.Context, e Event) context.Context
	// Refused is called when a call failed.
	Refused func(ctx context.Context, e Event)
	// Released is called when a lease was unlocked, and the server has replied to the release, if that needed one.
	Released func(ctx context.Context, e Event)
	// Lost is called when a lease ended before its Unlock, or when Unlock finds that it had.
	Lost func(ctx context.Context, e Event)
	// Unconfirmed is called when the server did not reply to a release. Released follows.
	Unconfirmed func(ctx context.Context, e Event)
	// Forced is called when a ForceUnlock of this session ended the hold of another one, or of this.
	Forced func(ctx context.Context, e Event)
	// Renewed is called when the server replied to a batch of renewals, or the batch failed.
	Renewed func(ctx context.Context, e Event)
	// Polling is called when messages cease to arrive, and waiters poll instead. Subscribed follows when they arrive
	// again. A session with WithPolling calls neither.
	Polling, Subscribed func(ctx context.Context, e Event)
	// MemberJoined is called when a member of a group of shards has joined, also again after a lost lease, and MemberLeft when
	// that membership has ended.
	MemberJoined, MemberLeft func(ctx context.Context, e Event)
	// ShardGranted is called when a member owns a shard, and ShardReleased when its work has stopped. Between them
	// ShardDraining is called if the work must stop, and ShardSlow if it has not stopped a minute later. ShardSlow is
	// also called if no goroutine has taken the shard up for a minute, before it is released. The outcome of
	// ShardReleased is "released" if ShardDraining was not called.
	ShardGranted, ShardDraining, ShardSlow, ShardReleased func(ctx context.Context, e Event)
	// Names puts the names of locks into events. Without it Event.Name is empty, so that no name becomes the label
	// of a metric by accident.
	Names bool

	joined []Observer // what Observers joined
}

// Event is what happened. A hook finds the fields set that are listed for it, and the others zero.
type Event struct {
	// Kind is the kind of the lock, by the name of its package: "reentrant", "fair", "rwlock", "semaphore",
	// "redlock", "multilock", "election", "once" or "shards". It is empty in Renewed, Polling and Subscribed.
	Kind string
	// Shared reports whether the call was to read, of an rwlock.
	Shared bool
	// Class is the class of the lock; see WithClass. A multilock has that of its members, if it is the same.
	Class string
	// Name is the name of the lock, or its digest (WithHashedNames), if the observer asked for it. That of a multilock
	// has those of its members, with commas.
	Name string
	// Token is the fencing token of the lease: from Acquired on.
	Token uint64
	// Source is where the lock came from, from Acquired on: "server" if its first reply granted it, "queue" if it was
	// granted after a wait there, "process" if it was handed over inside the process.
	Source string
	// Shard is the name of the shard, if the observer asked for names.
	Shard string
	// Outcome is why a call failed or a lease ended, one of a few words. In Refused: "held" (TryLock), "timeout",
	// "canceled", "busy", "closed", "refused", "denied", "no_reply", "not_replicated", "wrong_kind", "capacity", "error".
	// In Lost: "expired" (not renewed in time), "gone" (the server said so: by force, eviction or deletion), "max_hold",
	// "closed". In MemberLeft and of shards: "left", "closed", "expired", "gone"; of shards also "moved", "removed",
	// "resized", in ShardSlow "unread" if no goroutine took the shard up, and in ShardReleased "released" if the work
	// ended by itself. Unconfirmed, Polling, and Renewed if it failed, have the words of Refused.
	Outcome string
	// Err is the error that Outcome stands for. It may have the lock's name in its text.
	Err error
	// Waited is how long the call waited: in Acquired, Refused and after; in MemberJoined how long the member tried to
	// join, in ShardSlow and ShardReleased how long the work needed to stop, and of a shard that no goroutine took up how
	// long it was owned.
	Waited time.Duration
	// Held is how long the lease was held: in Released, Lost, Unconfirmed, MemberLeft and ShardReleased.
	Held time.Duration
	// Left is how much longer the key could live when the lease was lost here: the margin in which no other process
	// could hold it. It is negative if the loss was noticed late, and 0 if the key was gone or it is not known.
	Left time.Duration
	// Lag is by how much later the renewal came, or has not come yet, than a third of the lease after the one
	// before: that of the latest of the batch. Lease is the length of that lease, and Leases the size of the batch.
	Lag, Lease time.Duration
	Leases     int
}

// WithObserver lets the session call the hooks of o. A second WithObserver replaces the first; see Observers.
// Without an observer nothing is measured, and nothing is allocated for one.
func WithObserver(o Observer) SessionOption {
	return func(s *session.Settings) { s.Observer = o.internal() }
}

// WithLogger sets the logger for what no call can return, or what a program may not look at. By default it is
// slog.Default(). To log nothing, pass slog.New(slog.DiscardHandler); a nil logger is ErrBadOption.
//
// Warn:
//
//   - a lease, or a lock that the session kept idle, was lost before it was unlocked; the server did not confirm a release;
//   - calls fail: at once if a call returned ErrRefused, ErrDenied or ErrUnsupported, else after 5 s; with the cause, and
//     what to do. Once for each cause, and once more, as Info, when it is over;
//   - no unlock messages have arrived for 5 s, so that waiters poll. The same;
//   - the function of a once panicked, or failed after its caller had left;
//   - a Locker has to try again, and why;
//   - the host was suspended, or its wall clock was set forward;
//   - Close ended a lease that was not unlocked yet: once for each lease, up to 20;
//   - the server may evict the keys of locks: once.
//
// Lines are written one after the other on a goroutine of their own. So a handler may block, or call the session. If it
// panics, its line is lost.
//
// Error: a hook of the observer panicked.
//
// Each sort of event has at most one line in a second, and one in a minute while they continue, with the number of events
// and the first of them. Names of more than 128 bytes are shortened.
//
// Hold ids and passwords are never logged. With WithHashedNames, names are logged as digests.
func WithLogger(logger *slog.Logger) SessionOption {
	return func(s *session.Settings) {
		if logger == nil {
			s.Err = fmt.Errorf("%w: the logger is nil", ErrBadOption)
			return
		}
		s.Logger = logger
	}
}

// WithClass sets what observers and logs call locks of this sort, as "orders": a label for metrics, when the
// names of locks are too many. At most 64 bytes of UTF-8 without control characters. It is not sent to the server.
func WithClass(class string) LockOption {
	return session.Option(proto.OptionClass, session.CheckClass(class), func(l *session.LockSettings) { l.Class = class })
}

// Observers joins observers for WithObserver: each is called as if it were the only one, with the contexts that it returned itself, and with names only
// if it asked for them. A panic of one, or its blocking, costs the others no hook: they are called in order, or 10 ms later without waiting for
// it. The hooks of the result are nil; what is set there is called beside the others. A single observer is returned as it is.
func Observers(observers ...Observer) Observer {
	var all []Observer
	for _, o := range observers {
		all = append(all, o.each()...)
	}
	switch len(all) {
	case 0:
		return Observer{}
	case 1:
		return all[0]
	}
	return Observer{joined: all}
}

// each returns the observers that o consists of, each with hooks of its own.
func (o Observer) each() []Observer {
	all := slices.Clone(o.joined)
	o.joined = nil
	if o.hasHooks() {
		all = append(all, o)
	}
	return all
}

func (o Observer) hasHooks() bool {
	for _, starter := range []func(context.Context, Event) context.Context{o.Waiting, o.Acquired} {
		if starter != nil {
			return true
		}
	}
	return slices.ContainsFunc([]func(context.Context, Event){
		o.Refused, o.Released, o.Lost, o.Unconfirmed, o.Forced, o.Renewed, o.Polling, o.Subscribed, o.MemberJoined, o.MemberLeft,
		o.ShardGranted, o.ShardDraining, o.ShardSlow, o.ShardReleased,
	}, func(hook func(context.Context, Event)) bool { return hook != nil })
}

// internal returns the hooks as the session calls them, or nil without any.
func (o Observer) internal() *observe.Observer {
	var hooks []observe.Hooks
	for _, each := range o.each() {
		hooks = append(hooks, each.guest())
	}
	return observe.New(hooks)
}

func (o Observer) guest() observe.Hooks {
	starter := func(h func(context.Context, Event) context.Context) observe.Starter {
		if h == nil {
			return nil
		}
		return func(ctx context.Context, e observe.Event) context.Context { return h(ctx, Event(e)) }
	}
	hook := func(h func(context.Context, Event)) observe.Hook {
		if h == nil {
			return nil
		}
		return func(ctx context.Context, e observe.Event) { h(ctx, Event(e)) }
	}
	return observe.Hooks{
		Waiting: starter(o.Waiting), Acquired: starter(o.Acquired), Refused: hook(o.Refused), Released: hook(o.Released),
		Lost: hook(o.Lost), Unconfirmed: hook(o.Unconfirmed), Forced: hook(o.Forced), Renewed: hook(o.Renewed),
		Polling: hook(o.Polling), Subscribed: hook(o.Subscribed), MemberJoined: hook(o.MemberJoined), MemberLeft: hook(o.MemberLeft),
		ShardGranted: hook(o.ShardGranted), ShardDraining: hook(o.ShardDraining), ShardSlow: hook(o.ShardSlow), ShardReleased: hook(o.ShardReleased),
		Names: o.Names,
	}
}
