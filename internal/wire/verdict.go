// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// Verdict says what an error means for the script that it belongs to.
type Verdict int

const (
	// Unknown means that the script may have been executed or not. Repeat it or undo it. This is the verdict of every
	// error that is not listed below, of words that no server of ours says above all: a proxy may have lost the
	// reply, and say so in words of its own.
	Unknown Verdict = iota
	// Temporary means that the script was not executed, and may succeed when it is sent again later.
	Temporary
	// Final means that waiting does not help. The script was not executed, unless MayHaveRun says so.
	Final
)

// temporaryRefusals lists the words of refusals that end by themselves, or when an operator has removed their cause:
// a server that loads its data, a failover, a slot that is being moved, a long-running script, missing
// replicas, a full disk or memory, a script that the server has lost. The server says them before it executes
// the script, or as the reply to its first write: it refuses all writes for these reasons, and no write of a
// script of ours can pass when an earlier one was refused, since the error ends the script.
//
//nolint:gochecknoglobals // a constant table
var temporaryRefusals = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "NOREPLICAS", "MISCONF", "OOM", "MOVED", "ASK",
	"NOSCRIPT", "max number of clients",
	"LOADING Redis is loading", "LOADING Valkey is loading", "BUSY Redis is busy", "BUSY Valkey is busy", "OOM command not allowed",
}

// temporaryInScript lists the words of refusals that end by themselves, but that may come after the first write of a
// script: a slot that is being moved, some of whose keys are away and not among the script's KEYS, such as
// those that a layout of others keeps for readers.
//
//nolint:gochecknoglobals // a constant table
var temporaryInScript = []string{"Script attempted to access a non local key", "Lua script attempted to access a non local key"}

// permanentRefusals lists the words of refusals that come before the script is executed, or before its first write, and that
// waiting does not help. Refusals for lack of a right are in denials.
//
//nolint:gochecknoglobals // a constant table
var permanentRefusals = []string{"CROSSSLOT", wrongType, badArgument}

// badArgument is what each script of ours says before its first write if an argument cannot be: a mistake of this client.
const badArgument = "bad argument"

// foreignValues lists the words with which a command that counts refuses a value that another program wrote. Waiting
// does not help. The script may have written to other keys before.
//
//nolint:gochecknoglobals // a constant table
var foreignValues = []string{"value is not an integer", "hash value is not an integer"}

// wrongType is the refusal of a command for a key of another type, which belongs to another program. Every script of ours
// reads its keys before it writes to them.
const wrongType = "WRONGTYPE"

// finalErrors lists the errors that are known to be permanent. None is a server's refusal.
//
//nolint:gochecknoglobals // a constant table
var finalErrors = []error{errs.ErrClosed, errs.ErrWrongKind, errs.ErrDenied, errs.ErrOldServer, errs.ErrNotReplicated, errs.ErrCapacity, errs.ErrBusy, ErrNotSent}

// ErrUnreadable says that no script sends such a reply. Something between this process and the server made it up, so the outcome
// is unknown.
var ErrUnreadable = errors.New("a script's reply cannot be read")

// ErrNotSent says that a caller's context ended before its call was sent.
var ErrNotSent = errors.New("it was not sent")

// Judge returns what err means for the script that it belongs to.
func Judge(err error) Verdict {
	var revoked *revokedError
	if errors.As(err, &revoked) {
		return Temporary
	}
	var refusal *rueidis.RedisError
	if errors.As(err, &refusal) {
		return judgeWords(refusal.Error())
	}
	for _, final := range finalErrors {
		if errors.Is(err, final) {
			return Final
		}
	}
	if isConnectError(err) || errors.Is(err, errUnsent) || errors.Is(err, rueidis.ErrNoSlot) {
		return Temporary
	}
	return Unknown
}

func judgeWords(words string) Verdict {
	switch {
	case begins(words, temporaryRefusals):
		return Temporary
	case begins(words, denials), begins(words, denialsInScript), begins(words, permanentRefusals), begins(words, foreignValues):
		return Final
	}
	return Unknown
}

// wordsOf returns the words with which a server, or a proxy before it, refused a call; "" for any other error.
func wordsOf(err error) string {
	var refusal *rueidis.RedisError
	if errors.As(err, &refusal) {
		return refusal.Error()
	}
	return ""
}

// TryAgain reports whether a script was refused because its keys are spread over two nodes: their slot is
// being moved. A script with one key still works meanwhile.
func TryAgain(err error) bool { return begins(wordsOf(err), []string{"TRYAGAIN"}) }

// CrossSlot reports whether the server refused a script because its keys are in several slots. It was not executed.
func CrossSlot(err error) bool { return begins(wordsOf(err), []string{"CROSSSLOT"}) }

// MayHaveRun reports whether the script that err belongs to may have been executed, as a whole or, if a command in it was
// refused, in part.
func MayHaveRun(err error) bool {
	words := wordsOf(err)
	return Judge(err) == Unknown || begins(words, denialsInScript) || begins(words, foreignValues)
}

// IsReplyError reports whether err is the reply of a server, or of a proxy before it.
func IsReplyError(err error) bool {
	var refusal *rueidis.RedisError
	return errors.As(err, &refusal)
}

// Explain gives an error of the client the sentinel that callers look for. The server's words stay, except
// for repeated arguments of a call.
func Explain(err error) error {
	words := wordsOf(err)
	switch {
	case errors.Is(err, rueidis.ErrClosing):
		return fmt.Errorf("%w: its client was closed", errs.ErrClosed)
	case begins(words, temporaryRefusals), begins(words, temporaryInScript):
		return fmt.Errorf("%w: %w", errs.ErrRefused, err)
	case begins(words, denials), begins(words, denialsInScript):
		return denial(err, words)
	case begins(words, []string{wrongType}), begins(words, foreignValues):
		return fmt.Errorf("%w: %w", errs.ErrWrongKind, err)
	}
	return err
}

// englishCodes lists the codes of servers that are English words as well, with which a proxy may begin a sentence of
// its own: "Moved to another pool", "Busy". They count as a server's only in capital letters.
//
//nolint:gochecknoglobals // a constant table
var englishCodes = []string{"LOADING", "BUSY", "OOM", "MOVED", "ASK", "DENIED"}

// begins reports whether a server's words begin with one of these texts, as whole words. A proxy that hands a server's words on
// may add the general code or lose the capital letters.
func begins(words string, texts []string) bool {
	words = withoutGeneralCode(withoutScriptPosition(words))
	for _, text := range texts {
		if len(words) < len(text) || !endsWord(words[len(text):]) {
			continue
		}
		if start := words[:len(text)]; start == text || strings.EqualFold(start, text) && !slices.Contains(englishCodes, text) {
			return true
		}
	}
	return false
}

// scriptPosition is what Redis 6.2 says in front of an error that ended a script, or that a script returns:
// "ERR Error running script (call to f_<digest>): @user_script:4: @user_script: 4: -OOM command not allowed".
var scriptPosition = regexp.MustCompile(`^(?:-?ERR )?(?:Error running script \(call to f_[0-9a-f]+\): )?(?:@user_script: ?\d+: )+`)

// withoutScriptPosition returns the words of the command that failed.
func withoutScriptPosition(words string) string {
	return words[len(scriptPosition.FindString(words)):]
}

// withoutGeneralCode returns the words without the general code in front of them. The client removes it as servers write it.
func withoutGeneralCode(words string) string {
	const general = "ERR "
	for words = strings.TrimLeft(words, "- "); len(words) > len(general) && strings.EqualFold(words[:len(general)], general); {
		words = strings.TrimLeft(words[len(general):], "- ")
	}
	return words
}

// endsWord reports whether a word ends before rest.
func endsWord(rest string) bool {
	return rest == "" || !('a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z' || '0' <= rest[0] && rest[0] <= '9' || rest[0] == '_')
}
