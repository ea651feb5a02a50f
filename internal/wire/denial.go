// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"hash/maphash"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/scripts"
)

// denials lists the words of refusals that end when an operator grants a right. The server says them before it executes a
// script: it checks the user, the command that sends the script, and the keys that the call names.
//
//nolint:gochecknoglobals // a constant table
var denials = slices.Concat([]string{"NOPERM", "NOAUTH", "WRONGPASS", "DENIED"}, withoutScripts, passwordUnset, wrongPassword)

// withoutScripts lists the words of a server that has no command for scripts.
//
//nolint:gochecknoglobals // a constant table
var withoutScripts = []string{unknownCommand, "unsupported command", "command is not available"}

// passwordUnset lists the words with which a server that has no password refuses one, in RESP2.
//
//nolint:gochecknoglobals // a constant table
var passwordUnset = []string{"AUTH <password> called without any password configured", "Client sent AUTH, but no password is set"}

// wrongPassword lists the words with which proxies refuse a password, and servers before version 6.
//
//nolint:gochecknoglobals // a constant table
var wrongPassword = []string{"invalid password", "invalid username-password pair", "auth permission deny", "operation not permitted"}

// denialsInScript lists the words with which a command inside a script is denied: those of Redis 6.2 and 7.0, and those of
// Redis 7.2 and Valkey; and those of a server whose configuration renames or removes the command. What the script
// wrote before that stays, so callers undo it.
//
//nolint:gochecknoglobals // a constant table
var denialsInScript = []string{"The user executing the script", "ACL failure in script", renamedInside, renamedInside62}

const (
	unknownCommand = "unknown command"
	renamedInside  = "Unknown Redis command called from script"
	// renamedInside62 is what Redis 6.2 says in its place.
	renamedInside62 = "Unknown Redis command called from Lua script"
	// repeatedArgs is the text after which the error for an unknown command repeats the arguments. Some arguments are hold
	// ids, and one of AUTH is the password.
	repeatedArgs = ", with args beginning with"
	// listedRights says where the rights are listed.
	listedRights = "ACL LOG on the server names what was denied, docs/security.md of signalbox lists what is needed"
)

// denial explains a refusal for lack of a right.
func denial(err error, words string) error {
	if start, _, found := strings.Cut(words, repeatedArgs); found {
		err = &refusedError{start} // not wrapped: errors.Unwrap must not return the arguments
	}
	return fmt.Errorf("%w: %w (%s)", errs.ErrDenied, err, advice(words))
}

// advice says what to grant, as far as the server's words contain it.
func advice(words string) string {
	command := quoted(words)
	is := func(beginning string) bool { return begins(words, []string{beginning}) }
	switch {
	case is("NOAUTH"):
		return "the client has no password, and the server asks for one"
	case is("WRONGPASS"), begins(words, wrongPassword):
		return "the client's user or password is not valid, or not any more"
	case begins(words, passwordUnset):
		return "the client has a password, and the server has none: " + unsetPassword
	case is("DENIED"):
		return "the server wants a password before it serves other hosts"
	case is(unknownCommand):
		return "the server has no " + command + ": its configuration renames or removes it"
	case is(renamedInside), is(renamedInside62):
		return "the server's configuration renames or removes a command that scripts of signalbox call"
	case is("unsupported command"), is("command is not available"):
		return "what replies to this client does not run scripts"
	case strings.Contains(words, " key"):
		return "grant the keys of the session's prefix, ~sb:* by default"
	case strings.Contains(words, " channel"):
		return "grant the channels of the session's prefix, &sb:* by default"
	case command != "":
		return "grant +" + strings.ToLower(command)
	}
	if called := calledAt(words); called != "" {
		return "grant +" + called
	}
	return listedRights
}

// scriptLine matches the digest and the line that Redis 7.0 and 6.2 say of a command that a script may not call. They do not name it.
var scriptLine = regexp.MustCompile(`script: (?:f_)?([0-9a-f]{40}), on @user_script:(\d+)|call to f_([0-9a-f]{40})\): @user_script:(\d+):`)

// calledCommand matches a call of a command in a script.
var calledCommand = regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)

// sources returns the texts of all scripts by their digests.
//
//nolint:gochecknoglobals // a constant table
var sources = sync.OnceValue(func() map[string]string {
	byDigest := make(map[string]string)
	all, _ := scripts.All() // the names of all of them are tested
	for _, script := range all {
		byDigest[script.SHA1] = script.Source
	}
	return byDigest
})

// calledAt returns the command, in small letters, that a script of ours calls at the line that a denial names, or "".
func calledAt(words string) string {
	found := scriptLine.FindStringSubmatch(words)
	if found == nil {
		return ""
	}
	number, _ := strconv.Atoi(found[2] + found[4]) // digits
	lines := strings.Split(sources()[found[1]+found[3]], "\n")
	if number < 1 || number > len(lines) {
		return ""
	}
	calls := calledCommand.FindAllStringSubmatch(lines[number-1], -1)
	if len(calls) != 1 {
		return ""
	}
	return strings.ToLower(calls[0][1])
}

// quoted returns the first word of a text between single quotes, or between the backquotes of Redis before 7, or "".
func quoted(text string) string {
	start := strings.IndexAny(text, "'`")
	if start < 0 {
		return ""
	}
	word, _, found := strings.Cut(text[start+1:], text[start:start+1])
	if !found {
		return ""
	}
	return word
}

// rights remembers what a server has let a session do, so that the denial of it is known for one that passes: a password that
// is being replaced, or rights that are being rewritten. A denial of what was never allowed is a mistake in the configuration,
// and is final.
type rights struct {
	ranScript atomic.Bool // reports that a script was executed: the credentials are valid and may run scripts
	// keys has the hashes of keys that scripts used. Each hash has one index: a newer key with the same index replaces an
	// older one, and a denial of the older one is final then.
	keys [maxRememberedKeys]atomic.Uint64
}

const (
	// maxRememberedKeys is how many keys are remembered. Those that are waited for or held are used again and again.
	maxRememberedKeys = 1024
	// maxKeysOfCall is how many keys of one call are remembered at most. A batch of renewals has more. It continues until the leases
	// are over, whatever it is denied, and its keys would replace the others.
	maxKeysOfCall = 64
)

//nolint:gochecknoglobals // written once
var seed = maphash.MakeSeed()

// remember records that a script with these keys was executed.
func (r *rights) remember(keys []string) {
	if !r.ranScript.Load() {
		r.ranScript.Store(true)
	}
	if len(keys) > maxKeysOfCall {
		return
	}
	for _, key := range keys {
		hash := maphash.String(seed, key)
		if entry := &r.keys[hash%maxRememberedKeys]; entry.Load() != hash {
			entry.Store(hash)
		}
	}
}

// hasAll reports whether scripts used the keys, as far as that is remembered.
func (r *rights) hasAll(keys []string) bool {
	for _, key := range keys {
		hash := maphash.String(seed, key)
		if r.keys[hash%maxRememberedKeys].Load() != hash {
			return false
		}
	}
	return true
}

// revoked returns the denial of something that the session was allowed before. It is ErrDenied, and its verdict is Temporary.
func revoked(err error) error { return &judgedError{err, Temporary} }

// outcome returns the error of a call, and remembers what it shows.
func (r *rights) outcome(call *Call, err error) error {
	switch {
	case err == nil && call.Script != nil:
		r.remember(call.Keys)
		return nil
	case errors.Is(err, errs.ErrWrongKind) && IsReplyError(err) && len(call.Keys) > 0:
		// A copy: else the keys of every call would be on the heap.
		return fmt.Errorf("%w (another program has the key %s, or one beside it)", err, errs.Quote(strings.Clone(call.Keys[0])))
	case err == nil, !errors.Is(err, errs.ErrDenied), !r.ranScript.Load():
		return err
	}
	words := wordsOf(err)
	switch {
	case !IsReplyError(err):
		return revoked(err) // a command that was there before
	case begins(words, denialsInScript):
		return err // which commands a script calls depends on what it finds: whether it called this one before is not known
	case !begins(words, []string{"NOPERM"}), slices.Contains(runsScripts, strings.ToUpper(quoted(words))):
		return revoked(err) // the credentials, or the right to run scripts
	case strings.Contains(words, " key") && r.hasAll(call.Keys):
		return revoked(err)
	}
	return err
}

// runsScripts are the commands that run scripts.
//
//nolint:gochecknoglobals // a constant table
var runsScripts = []string{"EVALSHA", "EVAL"}
