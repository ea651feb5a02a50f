// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// Stamp is a server's time in microseconds since 1970. Scripts write it as 16 digits, which is enough until
// the year 2286: texts of one length compare like numbers, in Lua too.
//
// The fencing tokens of a stamp are four times the microseconds since 2025-01-01. So they stay below 2^53, up
// to which every number is exact in Lua and in JSON, until 2096, and a process can hand a lock over more than
// once a microsecond.
type Stamp int64

const (
	// stampDigits is the length of a stamp on the wire.
	stampDigits = 16
	// epoch is 2025-01-01 UTC.
	epoch Stamp = 1735689600000000
	// perMicrosecond is how many tokens a microsecond has.
	perMicrosecond = 4
	// TokenBlock is for how many microseconds an acquire reserves tokens; the scripts say the same.
	TokenBlock = 256
	// longestBlock is the length of the longest block that a stamp begins; the scripts say the same.
	longestBlock Stamp = 1024
)

// ParseStamp reads 16 digits; 0 is no stamp.
func ParseStamp(text string) Stamp {
	if len(text) != stampDigits {
		return 0
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return Stamp(micros)
}

// Text returns s as an argument of scripts.
func (s Stamp) Text() string { return string(s.Append(make([]byte, 0, stampDigits))) }

// Append appends s as an argument of scripts.
func (s Stamp) Append(to []byte) []byte {
	var text [stampDigits]byte
	for i := stampDigits - 1; i >= 0; i-- {
		text[i] = byte('0' + s%10)
		s /= 10
	}
	return append(to, text[:]...)
}

// Time returns s as a time.
func (s Stamp) Time() time.Time { return time.UnixMicro(int64(s)) }

// ReservedEnd returns the last stamp whose tokens an acquire at s reserves, if its hold can be handed over:
// the next hold may begin one microsecond later.
func (s Stamp) ReservedEnd() Stamp { return s + TokenBlock - 1 }

// BlockEnd returns the last stamp of the block that s begins, if s belongs to a hold that can be handed over.
// The greatest power of four that divides s is the length of the block, up to longestBlock.
func (s Stamp) BlockEnd() Stamp {
	length := longestBlock
	for s%length != 0 {
		length /= 4
	}
	return s + length - 1
}

// Token returns the first token at s.
func (s Stamp) Token() uint64 {
	return uint64(max(s-epoch, 0)) * perMicrosecond //nolint:gosec // not negative
}

// LastToken returns the last token at s.
func (s Stamp) LastToken() uint64 { return s.Token() + perMicrosecond - 1 }

// StampOf returns the stamp that is not before token: every later stamp has greater tokens.
func StampOf(token uint64) Stamp {
	return epoch + Stamp((token+perMicrosecond-1)/perMicrosecond) //nolint:gosec // below 2^53
}

// Milliseconds returns d as an argument of a server command, rounded up to a millisecond.
func Milliseconds(d time.Duration) string {
	switch d { // the default leases and floor cost no allocation for each lock object
	case 3 * time.Second:
		return "3000"
	case 30 * time.Second:
		return "30000"
	case time.Minute:
		return "60000"
	default:
		return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
	}
}

// ServerClock knows the server's time from the last reply that contained it, and the monotonic time since. A
// guess is late by the time that the reply was on its way, and after a step of the server's clock it is wrong
// until the next reply.
//
// The nodes of a cluster have clocks of their own, and the slot decides which node executes a script: there
// the time is known by slot. So it is where several shards stand behind one endpoint, from the first reply on whose
// time differs from that of the one before. For a slot without a known time the last reply of any slot is the guess.
// If that is behind its node's clock, a script is refused as late, once, and the refusal contains the time; if it is
// ahead, the script may take effect for longer. However far the nodes are apart, one slot does not disturb
// the others.
type ServerClock struct {
	runner  *Runner
	watcher ClockWatcher // may be nil
	watched atomic.Bool  // reports that the clock of some slot was set back

	lastOffset atomic.Int64                        // the offset of the last reply
	lastSlot   atomic.Int32                        // the slot of the last reply
	offsets    atomic.Pointer[[slots]atomic.Int64] // the offset of each slot; nil while one clock is enough
}

// An offset is server time less monotonic time, in microseconds; 0 is unknown.

// sameClock is the greatest difference, in microseconds, between two offsets that count as those of one clock. Replies of
// one server differ by their times in transit. If these differ by more, memory is wasted, and nothing else.
const sameClock = 10_000

// NewServerClock returns the clock of a runner's server, which knows nothing yet. By slot it needs 128 KiB.
func NewServerClock(r *Runner) *ServerClock { return &ServerClock{runner: r} }

// isBySlot reports whether each slot may have a clock of its own.
func (c *ServerClock) isBySlot() bool { return c.runner != nil && c.runner.Clustered() }

// ClockWatcher is notified if a server's clock shows less than it did, beyond what replies are late by.
type ClockWatcher interface {
	// Moved says that the time of slot was before beyond this host's monotonic clock, and is offset beyond it now. It returns
	// true if it wants to know of the next replies, too.
	Moved(slot uint16, before, offset, now time.Duration) (watches bool)
}

// ClockMoved is the least step back of a server's clock that a ClockWatcher is notified of.
const ClockMoved = time.Second

// Watch makes w the watcher of c. Call it once, before any reply.
func (c *ServerClock) Watch(w ClockWatcher) { c.watcher = w }

// watch compares the offset that slot had with the one that it has.
func (c *ServerClock) watch(slot uint16, before, offset int64, now timers.Instant) {
	if before == 0 || before-offset < ClockMoved.Microseconds() && !c.watched.Load() {
		return
	}
	micros := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	c.watched.Store(c.watcher.Moved(slot, micros(before), micros(offset), now.Mono()))
}

// Known reports whether a reply has contained the time.
func (c *ServerClock) Known() bool { return c.lastOffset.Load() != 0 }

// Observe records a server time from a reply for a key of slot, read just now.
func (c *ServerClock) Observe(slot uint16, server Stamp, now timers.Instant) {
	offset := int64(server) - now.Mono().Microseconds()
	last, lastSlot := c.lastOffset.Swap(offset), c.lastSlot.Swap(int32(slot))
	bySlot := c.offsets.Load()
	if bySlot == nil && (c.isBySlot() || last != 0 && max(offset-last, last-offset) > sameClock) {
		c.offsets.CompareAndSwap(nil, new([slots]atomic.Int64))
		bySlot = c.offsets.Load()
	}
	before := int64(0) // the offset of this slot; the last reply may be of another slot
	if lastSlot == int32(slot) {
		before = last
	}
	if bySlot != nil {
		if own := bySlot[slot%slots].Swap(offset); own != 0 {
			before = own
		}
	}
	if c.watcher == nil {
		return
	}
	if !c.runner.Clustered() && c.runner.Span.shown.Load() {
		slot, before = 0, last // one server has all slots, and one clock
	}
	c.watch(slot, before, offset, now)
}

// NotAfter returns the time, at the server of slot, at which patience from now is over.
func (c *ServerClock) NotAfter(slot uint16, now timers.Instant, patience time.Duration) Stamp {
	offset := c.lastOffset.Load()
	if bySlot := c.offsets.Load(); bySlot != nil {
		if own := bySlot[slot%slots].Load(); own != 0 {
			offset = own
		}
	}
	return Stamp(offset + (now.Mono() + patience).Microseconds())
}
