// SPDX-License-Identifier: Apache-2.0

// Package stamp has the server's time as scripts write it, and the fencing tokens made of it.
//
// A stamp is a count of microseconds since 1970, and travels as 16 digits: equal lengths
// compare as texts, in Lua too. It has 16 digits until the year 2286.
//
// A token is four times the microseconds since 2025-01-01, so that tokens stay below 2^53,
// where every number is exact in Lua and in JSON, until 2096. Four tokens a microsecond let
// a process pass a lock on faster than once a microsecond.
package stamp

import (
	"strconv"
	"time"
)

// Stamp is a server's time in microseconds since 1970.
type Stamp int64

const (
	// digits is the length of a stamp on the wire.
	digits = 16
	// epoch is 2025-01-01 UTC.
	epoch Stamp = 1735689600000000
	// perMicrosecond is how many tokens a microsecond has.
	perMicrosecond = 4
	// Block is for how many microseconds an acquire reserves tokens; the scripts say the same.
	Block = 256
	// longest is the length of the longest block that a stamp begins; the scripts say the same.
	longest Stamp = 1024
)

// Parse reads 16 digits; 0 is no stamp.
func Parse(text string) Stamp {
	if len(text) != digits {
		return 0
	}
	micros, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return Stamp(micros)
}

// Text writes s as scripts take it.
func (s Stamp) Text() string { return string(s.Append(make([]byte, 0, digits))) }

// Append appends s as scripts take it.
func (s Stamp) Append(to []byte) []byte {
	var text [digits]byte
	for i := digits - 1; i >= 0; i-- {
		text[i] = byte('0' + s%10)
		s /= 10
	}
	return append(to, text[:]...)
}

// Time answers s as a time.
func (s Stamp) Time() time.Time { return time.UnixMicro(int64(s)) }

// BlockEnd answers the last stamp of the block that s begins, where s is that of a hold that can be passed on. The
// greatest power of four that s is a multiple of says how long the block is, up to longest.
func (s Stamp) BlockEnd() Stamp {
	length := longest
	for s%length != 0 {
		length /= 4
	}
	return s + length - 1
}

// Token answers the first token at s.
func (s Stamp) Token() uint64 {
	return uint64(max(s-epoch, 0)) * perMicrosecond //nolint:gosec // not negative
}

// LastToken answers the last token at s.
func (s Stamp) LastToken() uint64 { return s.Token() + perMicrosecond - 1 }

// Floor answers the stamp that is not before token: every later stamp's tokens are greater.
func Floor(token uint64) Stamp {
	return epoch + Stamp((token+perMicrosecond-1)/perMicrosecond) //nolint:gosec // below 2^53
}
