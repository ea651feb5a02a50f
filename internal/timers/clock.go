// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"sync/atomic"
	"time"
)

//nolint:gochecknoglobals // where the monotonic clock of this process counts from; never written again
var base = time.Now()

//nolint:gochecknoglobals // see Skew
var skew atomic.Int64

// Skew makes the wall clock wrong by d for the callers of this package. A second Skew replaces the
// first. It is for tests, which cannot set the clock of a machine.
func Skew(d time.Duration) { skew.Store(int64(d)) }

// Instant is a moment on both clocks, the monotonic and the wall clock: of two readings it believes the one that says longer. The
// zero Instant is before every other.
//
// # Guarantees
//
//  1. A deadline is reached as soon as either clock says so. The monotonic clock is blind to
//     the time that a host was suspended; the wall clock is not. The wall clock can be set
//     back; the monotonic one can not. Taking the earlier of the two ends a lease too early
//     when the clock is set forward, and never too late.
//
// # Which comparison to use
//
// Until and Reached serve one question: can something still be trusted now? Use Mono for schedules
// and pauses, and to find the later one of two instants. The wall clock may have been set back
// between two instants; then the later one would seem to be the earlier.
type Instant struct {
	mono time.Duration // the time since base
	wall int64         // nanoseconds since 1970, UTC
}

// Now reads both clocks.
func Now() Instant {
	now := time.Now()
	return Instant{mono: now.Sub(base), wall: now.UnixNano() + skew.Load()}
}

// Mono reads the monotonic clock alone, which takes a third of the time.
func Mono() time.Duration { return time.Since(base) }

// At makes an Instant from its two readings, for tests in which the clocks disagree.
func At(mono time.Duration, wall time.Time) Instant {
	return Instant{mono: mono, wall: wall.UnixNano()}
}

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{mono: i.mono + d, wall: i.wall + int64(d)}
}

// Until returns how long it is from now until i, by the clock that says less. It is
// negative or zero when i is reached.
func (i Instant) Until(now Instant) time.Duration {
	return min(i.mono-now.mono, time.Duration(i.wall-now.wall))
}

// Reached reports whether i is not in the future.
func (i Instant) Reached(now Instant) bool { return i.Until(now) <= 0 }

// Lead returns by how much the wall clock leads the monotonic one. Only the difference of two leads means something: how
// much further the wall clock went between them. It is positive after the host was suspended, or the wall clock was set
// forward.
func (i Instant) Lead() time.Duration { return time.Duration(i.wall) - i.mono }

// Mono returns the monotonic reading: for schedules, and to compare two instants that were both
// taken or computed before.
func (i Instant) Mono() time.Duration { return i.mono }

// IsZero reports whether i was never set.
func (i Instant) IsZero() bool { return i == Instant{} }

// Time returns i as wall clock time, for people to read.
func (i Instant) Time() time.Time { return time.Unix(0, i.wall) }

// Allowance is what a deadline stays short of the life of its key: a fiftieth for clocks that
// do not run alike (Redlock allows for a hundredth) and for our own lateness, and 2 ms for
// the server's rounding of expiries.
func Allowance(life time.Duration) time.Duration { return life/50 + 2*time.Millisecond }

// Deadline is until when a key can be trusted that a request sent at sent gave that life.
func Deadline(sent Instant, life time.Duration) Instant {
	return sent.Add(life - Allowance(life))
}

// Atomic is an Instant that is read without a lock. Its two readings are written one after
// the other, and a reader in between sees one of each. So it is never later than the newer
// instant by the monotonic clock, nor later than the later of the two by the wall clock.
type Atomic struct{ mono, wall atomic.Int64 }

// Store sets the instant. Writers exclude each other.
func (a *Atomic) Store(i Instant) {
	a.mono.Store(int64(i.mono))
	a.wall.Store(i.wall)
}

// Load returns the instant.
func (a *Atomic) Load() Instant {
	return Instant{mono: time.Duration(a.mono.Load()), wall: a.wall.Load()}
}
