// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/settings"
)

// SessionOption sets something for a session; see NewSession and Dial.
type SessionOption func(*settings.Session)

// LockOption sets something for one lock; the primitives' New take it. A bad value is the error
// of every call on that lock, and of its Check.
type LockOption func(*settings.Lock)

// WithLogger lets the session log to logger what nobody is there to be told, at level Warn: that
// unlock messages cannot be had. By default nothing is logged. Names of locks are logged,
// hold ids and passwords are not.
func WithLogger(logger *slog.Logger) SessionOption {
	return func(s *settings.Session) {
		if logger == nil {
			s.Err = fmt.Errorf("%w: the logger is nil", ErrBadOption)
			return
		}
		s.Logger = logger
	}
}

// WithPrefix sets what stands before every key and channel; "sb:" by default. Processes meet
// on a name only where their prefixes are equal. At most 64 bytes, no braces.
func WithPrefix(prefix string) SessionOption {
	return func(s *settings.Session) {
		if err := names.CheckPrefix(prefix); err != nil {
			s.Err = err
			return
		}
		s.Prefix = prefix
	}
}

// WithPolling lets waiters try again after pauses, from 2 to 250 ms and jittered, and never
// subscribe: for servers where publishing costs more than trying, such as large clusters
// without sharded channels.
func WithPolling() SessionOption {
	return func(s *settings.Session) { s.Polling = true }
}

// WithDefaults sets what the session's locks start from, before their own options.
func WithDefaults(options ...LockOption) SessionOption {
	return func(s *settings.Session) {
		for _, option := range options {
			if option != nil {
				option(&s.Lock)
			}
		}
	}
}

// RenewedLease makes leases that are renewed for as long as they are held: the key lives for
// life without a renewal, and is renewed each third of that. This is the default, with 30 s.
// From 100 ms to 24 h. A shorter life is a faster recovery from a crashed holder, and less
// patience with a server that is away.
func RenewedLease(life time.Duration) LockOption {
	return func(l *settings.Lock) {
		if err := settings.CheckDuration("a renewed lease", life); err != nil {
			l.Fail(err)
			return
		}
		l.Lease, l.Fixed = life, false
	}
}

// FixedLease makes leases that are not renewed: they are ErrLost after life, less what is
// allowed for clocks. From 100 ms to 24 h.
func FixedLease(life time.Duration) LockOption {
	return func(l *settings.Lock) {
		if err := settings.CheckDuration("a fixed lease", life); err != nil {
			l.Fail(err)
			return
		}
		l.Lease, l.Fixed = life, true
	}
}

// MaxHold ends a renewed lease just before d is over with ErrMaxHold. Renewals are trimmed, so that
// the key ends by then even if nobody gives it back: for holders that may hang. From 100 ms to 24 h. Without it a lease is renewed for
// as long as its process lives. A hold with a greatest length is not passed on inside the
// process.
func MaxHold(d time.Duration) LockOption {
	return func(l *settings.Lock) {
		if err := settings.CheckDuration("a greatest hold", d); err != nil {
			l.Fail(err)
			return
		}
		l.MaxHold = d
	}
}
