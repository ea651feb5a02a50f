// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// denied lists the prefixes of refusals that end when an operator grants a right. A denial inside a script
// has other words: those of Redis 7.0, and those of Redis 7.2 and Valkey.
//
//nolint:gochecknoglobals // a constant table
var denied = []string{
	"NOPERM", "NOAUTH", "WRONGPASS", "DENIED", unknownCommand,
	"The user executing the script", "ACL failure in script",
}

const (
	unknownCommand = "unknown command"
	// repeated is the point from which the error for an unknown command repeats its arguments. Hold ids are
	// among ours, and the password among those of AUTH.
	repeated = ", with args beginning with"
	// allRights says where the rights are listed.
	allRights = "ACL LOG on the server names what was denied, docs/security.md of signalbox lists what is needed"
)

// denial explains a refusal for lack of a right.
func denial(err error, words string) error {
	if shown, _, found := strings.Cut(words, repeated); found {
		err = errors.New(shown) // not wrapped: errors.Unwrap must not return the arguments
	}
	return fmt.Errorf("%w: %w (%s)", errs.ErrDenied, err, advice(words))
}

// advice says what to grant, as far as the server's words contain it.
func advice(words string) string {
	command := quoted(words)
	switch {
	case strings.HasPrefix(words, "NOAUTH"):
		return "the client has no password, and the server asks for one"
	case strings.HasPrefix(words, "WRONGPASS"):
		return "the client's user or password is not valid, or not any more"
	case strings.HasPrefix(words, "DENIED"):
		return "the server wants a password before it serves other hosts"
	case strings.HasPrefix(words, unknownCommand):
		return "the server has no " + command + ": its configuration renames or removes it"
	case strings.Contains(words, " key"):
		return "grant the keys of the session's prefix, ~sb:* by default"
	case strings.Contains(words, " channel"):
		return "grant the channels of the session's prefix, &sb:* by default"
	case command != "":
		return "grant +" + strings.ToLower(command)
	}
	return allRights
}

// quoted returns the first word of a text between single quotes, or "".
func quoted(text string) string {
	_, rest, _ := strings.Cut(text, "'")
	word, _, found := strings.Cut(rest, "'")
	if !found {
		return ""
	}
	return word
}
