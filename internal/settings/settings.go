// SPDX-License-Identifier: Apache-2.0

// Package settings holds what options set, checked in one place.
package settings

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/names"
)

const (
	// MinLease is the shortest lease. Tokens may run that far ahead of the server's clock, so
	// a floor that ended with its key is behind the clock by then.
	MinLease = 100 * time.Millisecond
	// MaxLease is the longest lease. A longer one is a key that nobody misses when its holder dies.
	MaxLease = 24 * time.Hour
	// DefaultLease is the life of a renewed lease unless an option says otherwise.
	DefaultLease = 30 * time.Second
)

// Session is what a session's options set.
type Session struct {
	Prefix  string
	Logger  *slog.Logger
	Polling bool
	Lock    Lock
	Err     error // the first bad option
}

// Lock is what a lock's options set; a session's defaults are what it starts from.
type Lock struct {
	Terms

	// Err is the first bad option.
	Err error
}

// Terms are for how long a lock is held.
type Terms struct {
	// Lease is how long the key lives when nobody renews it.
	Lease time.Duration
	// Fixed leases are not renewed.
	Fixed bool
	// MaxHold ends a renewed lease that long after it was taken; 0 is never.
	MaxHold time.Duration
}

// Default answers the settings of a session without options.
func Default() Session {
	return Session{
		Prefix: names.DefaultPrefix,
		Logger: slog.New(slog.DiscardHandler),
		Lock:   Lock{Terms: Terms{Lease: DefaultLease}},
	}
}

// Fail keeps the first bad option.
func (l *Lock) Fail(err error) {
	if l.Err == nil {
		l.Err = err
	}
}

// CheckDuration says why d cannot be the length of what, or nil.
func CheckDuration(what string, d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("%w: %s of %v: it must be from %v to %v", errs.ErrBadOption, what, d, MinLease, MaxLease)
	}
	return nil
}

// Life answers for how long a key is asked for at the first acquire.
func (l *Terms) Life() time.Duration {
	if l.MaxHold > 0 {
		return min(l.Lease, l.MaxHold)
	}
	return l.Lease
}
