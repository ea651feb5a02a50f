// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strconv"
	"time"
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
