// SPDX-License-Identifier: Apache-2.0

// Package names is the one place where names become keys and channels.
//
// # Guarantees
//
//  1. Two names never share a key: the encoding is injective.
//  2. All keys and channels of a name stand in one slot of a cluster: the encoded name is
//     the hash tag, holds no brace and is never empty.
package names

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox/internal/errs"
)

const (
	// MaxBytes is the length of the longest name.
	MaxBytes = 512
	// DefaultPrefix stands before every key and channel unless the session says otherwise.
	DefaultPrefix = "sb:"
	// maxPrefixBytes keeps the longest key below 2 KiB, even when every byte is escaped.
	maxPrefixBytes = 64
)

// unlockedSuffix makes the channel of a holder key.
const unlockedSuffix = ":unlocked"

const hexDigits = "0123456789ABCDEF"

// Set is what a name becomes on the server.
type Set struct {
	// Holder is the key that says who has the lock, whatever its kind.
	Holder string
	// Unlocked is the channel on which a release is told.
	Unlocked string
}

// Make answers the keys and channels of name, or why it is not a name.
func Make(prefix, name string) (Set, error) {
	switch {
	case name == "":
		return Set{}, fmt.Errorf("%w: it is empty", errs.ErrBadName)
	case len(name) > MaxBytes:
		return Set{}, fmt.Errorf("%w: it has %d bytes, and %d are allowed", errs.ErrBadName, len(name), MaxBytes)
	}
	// The key is the beginning of the channel, so that both are one string in memory.
	unlocked := prefix + "{" + Encode(name) + "}:lock" + unlockedSuffix
	return Set{Holder: unlocked[:len(unlocked)-len(unlockedSuffix)], Unlocked: unlocked}, nil
}

// CheckPrefix says why prefix cannot stand before keys, or nil.
func CheckPrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefixBytes:
		return fmt.Errorf("%w: the prefix has %d bytes, and %d are allowed", errs.ErrBadOption, len(prefix), maxPrefixBytes)
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("%w: the prefix %q has a brace, which would move the hash tag", errs.ErrBadOption, prefix)
	}
	return nil
}

// Encode writes the bytes that would move the hash tag or spoil a terminal as %XX, and % too, so
// that no two names meet: braces, control characters, and what is not UTF-8.
func Encode(name string) string {
	if !strings.ContainsFunc(name, escaped) {
		return name
	}
	var out strings.Builder
	for i := 0; i < len(name); {
		r, size := utf8.DecodeRuneInString(name[i:])
		if !escaped(r) || (r == utf8.RuneError && size > 1) {
			out.WriteString(name[i : i+size])
			i += size
			continue
		}
		for end := i + size; i < end; i++ {
			out.WriteByte('%')
			out.WriteByte(hexDigits[name[i]>>4])
			out.WriteByte(hexDigits[name[i]&15])
		}
	}
	return out.String()
}

// escaped reports whether r may need escaping. A RuneError is either three honest bytes or
// one byte that is no UTF-8; Encode tells them apart by their size.
func escaped(r rune) bool {
	return r == '%' || r == '{' || r == '}' || unicode.IsControl(r) || r == utf8.RuneError
}
