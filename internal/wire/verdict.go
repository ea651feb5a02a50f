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
var temporaryRefusals = slices.Concat(pausedForAll, []string{
	"READONLY", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MISCONF", "MOVED", "ASK",
	"NOSCRIPT", "max number of clients", "Script killed by user",
}, memoryRefusals)

// memoryRefusals lists those of them with which a server refuses what adds data.
//
//nolint:gochecknoglobals // a constant table
var memoryRefusals = []string{"OOM", "OOM command not allowed"}

// pausedForAll lists those of them with which a server refuses every script, whatever it does.
//
//nolint:gochecknoglobals // a constant table
var pausedForAll = []string{
	"LOADING", "LOADING Redis is loading", "LOADING Valkey is loading", "BUSY", "BUSY Redis is busy", "BUSY Valkey is busy", "MASTERDOWN",
}

// temporaryInScript lists the words of refusals that end by themselves, but that may come after the first write of a
// script: a slot that is being moved, some of whose keys are away and not among the script's KEYS, such as
// those that a layout of others keeps for readers.
//
//nolint:gochecknoglobals // a constant table
var temporaryInScript = []string{"Script attempted to access a non local key", "Lua script attempted to access a non local key"}

// permanentRefusals lists the words of refusals that come before the script is executed, and that waiting does not help: the request
// is wrong for this server, and every copy of it is. Refusals for lack of a right are in denials.
//
//nolint:gochecknoglobals // a constant table
var permanentRefusals = []string{
	"CROSSSLOT", "wrong number of arguments", "Number of keys can't be", "Protocol error", "invalid bulk length", "invalid multibulk length",
	"DB index is out of range", "invalid DB index", "SELECT is not allowed in cluster mode", "Error compiling script", "NOPROTO",
}

// foreignValues lists the words with which a command that counts refuses a value that another program wrote. Waiting
// does not help. The script may have written to other keys before.
//
//nolint:gochecknoglobals // a constant table
var foreignValues = []string{
	"value is not an integer", "hash value is not an integer", "value is not a valid float", "hash value is not a float", "increment or decrement would overflow",
}

// wrongTypes is the refusal of a command for a key of another type, which belongs to another program. Every script of ours
// reads its keys before it writes to them.
//
//nolint:gochecknoglobals // a constant table
var wrongTypes = []string{"WRONGTYPE"}

// finalErrors lists the errors that are known to be permanent. None is a server's refusal.
//
//nolint:gochecknoglobals // a constant table
var finalErrors = []error{
	errs.ErrClosed, errs.ErrWrongKind, errs.ErrDenied, errs.ErrUnsupported, errs.ErrOldServer, errs.ErrNotReplicated, errs.ErrCapacity, errs.ErrBusy, ErrNotSent,
}

// ErrUnreadable says that no script sends such a reply. Something between this process and the server made it up, so the outcome
// is unknown.
var ErrUnreadable = errors.New("a script's reply cannot be read")

// ErrNotSent says that a caller's context ended before its call was sent.
var ErrNotSent = errors.New("it was not sent")

// judgedError is an error whose verdict is not that of its words, since more is known.
type judgedError struct {
	err     error
	verdict Verdict
}

// Error implements error.
func (e *judgedError) Error() string { return e.err.Error() }

// Unwrap returns the error.
func (e *judgedError) Unwrap() error { return e.err }

// AsFinal returns err with the verdict Final: a server's reply shows that the client's options are wrong for it.
func AsFinal(err error) error { return &judgedError{err, Final} }

// Judge returns what err means for the script that it belongs to.
func Judge(err error) Verdict {
	var judged *judgedError
	if errors.As(err, &judged) {
		return judged.verdict
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
	case begins(words, denials), begins(words, denialsInScript), begins(words, permanentRefusals), begins(words, wrongTypes), begins(words, foreignValues):
		return Final
	case isOfScript(words):
		return Final
	}
	return Unknown
}

// inScript matches what a server adds to an error that ended a script: Redis 6.2 says the position in front of it, later servers say
// it behind. No proxy says so.
var inScript = regexp.MustCompile(`^(?:-?ERR )?(?:Error running script|@?user_script: ?\d+: )|script: (?:f_)?[0-9a-f]+, on @user_script:\d+\.?$`)

// isOfScript reports whether these are the words of an error that a script of ours raised, or a command in it that refuses its
// arguments: a bug, a key that another program has damaged, or a server whose Lua is another one. The script fails so whenever it
// is sent. An error with a code of its own, in capital letters, is a state of the server, and may pass.
func isOfScript(words string) bool {
	if !inScript.MatchString(words) || begins(words, temporaryInScript) {
		return false
	}
	code, _, _ := strings.Cut(withoutGeneralCode(withoutScriptPosition(words)), " ")
	return len(code) < 2 || code != strings.ToUpper(code) || strings.ContainsAny(code, "':.")
}

// badArgument is what each script of ours says before its first write if an argument cannot be: a mistake of this client.
const badArgument = "bad argument"

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
	switch {
	case Judge(err) == Unknown, begins(words, denialsInScript), begins(words, foreignValues):
		return true
	case begins(words, temporaryRefusals), begins(words, permanentRefusals):
		return false
	}
	return isOfScript(words) && !strings.Contains(words, badArgument)
}

// EndsUndo reports whether the error of an undo shows that no repetition of it can help: the key belongs to another program, the
// script fails whenever it is sent, this client does not reach the key's server, or the client was closed. A missing right may be granted.
func EndsUndo(err error) bool {
	return errors.Is(err, errs.ErrWrongKind) || errors.Is(err, errs.ErrUnsupported) || errors.Is(err, errs.ErrClosed)
}

// OutOfMemory reports whether the server is full: it refuses what adds data, and not what removes some.
func OutOfMemory(err error) bool {
	return begins(wordsOf(err), memoryRefusals)
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
	case errors.Is(err, rueidis.ErrNoCache):
		return refusedSetup(err)
	case begins(words, temporaryRefusals), begins(words, temporaryInScript):
		return fmt.Errorf("%w: %w", errs.ErrRefused, err)
	case begins(words, denials), begins(words, denialsInScript):
		return denial(err, words)
	case begins(words, wrongTypes), begins(words, foreignValues):
		return fmt.Errorf("%w: %w", errs.ErrWrongKind, err)
	case begins(words, permanentRefusals):
		return fmt.Errorf("%w: the server refuses the request, and would refuse it again: %w", errs.ErrUnsupported, err)
	case isOfScript(words):
		return fmt.Errorf("%w: a script fails on this server, and would fail again; if no other program writes to the key, report it: %w", errs.ErrUnsupported, err)
	}
	return err
}

// refusedSetup explains that the server refused a CLIENT command with which the client sets a connection up. The client adds a line that
// advises DisableCache, which is set.
func refusedSetup(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if err = errors.New(line); begins(line, denials) {
		return denial(err, line)
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
