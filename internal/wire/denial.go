// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

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

// refusalRemedies says what to do if a refusal lasts. The first row whose words a refusal begins with counts.
//
//nolint:gochecknoglobals // a constant table
var refusalRemedies = []struct {
	words  []string
	remedy string
}{
	{[]string{"READONLY", "MASTERDOWN"}, "let the address lead to the primary, or dial the sentinels: this server is a replica"},
	{memoryRefusals, "raise maxmemory, or remove keys of other programs; renewals and releases pass meanwhile"},
	{[]string{"MISCONF"}, "make room on the server's disk, or repair what its log says of saving"},
	{[]string{"NOREPLICAS"}, "bring the server's replicas back, or lower min-replicas-to-write"},
	{[]string{"LOADING", "LOADING Redis is loading", "LOADING Valkey is loading"}, "wait until the server has read its data; if it restarts again and again, its log says why"},
	{[]string{"BUSY", "BUSY Redis is busy", "BUSY Valkey is busy"}, "end the script of another client that runs for so long: SCRIPT KILL"},
	{[]string{"CLUSTERDOWN"}, "give the cluster a primary for each slot: CLUSTER INFO and CLUSTER SLOTS say which is missing"},
	{[]string{"MOVED", "ASK", "TRYAGAIN"}, "finish the move of slots; if no slot moves, make a client of the cluster"},
	{temporaryInScript, "finish the move of slots"},
	{[]string{"max number of clients"}, "raise maxclients, or end clients that are idle: CLIENT LIST"},
	{passwordUnset, unsetPassword},
	{[]string{"NOSCRIPT"}, "let EVAL reach the server unchanged: the text of the script was refused as well, so a proxy may replace it"},
	{[]string{unknownCommand, "unsupported command", "command is not available"}, "let the address lead to a server that runs scripts, or undo what renames or removes the command there"},
	{denials, "renew the client's credentials, or grant what the error names; docs/security.md lists the rights"},
	{denialsInScript, "grant what the error names; docs/security.md lists the rights"},
}

// refusalsOfAll lists the words with which a server refuses every script, whatever it does.
//
//nolint:gochecknoglobals // a constant table
var refusalsOfAll = slices.Concat(connectRefusals, passwordUnset, pausedForAll, withoutScripts)

// RefusesAll reports whether err says that the server refuses every script, whatever it does.
func RefusesAll(err error) bool {
	words := refusedWords(err)
	return begins(words, refusalsOfAll) || begins(words, []string{"NOPERM"}) && slices.Contains(runsScripts, strings.ToUpper(quoted(words)))
}

// refusedWords returns the words of a server that refused a call, or a connection; "" for any other error.
func refusedWords(err error) string {
	if refused := new(refusedError); errors.As(err, &refused) {
		return refused.words
	}
	return wordsOf(err)
}

// unsetPassword says what to do if a server has no password, and the client has one.
const unsetPassword = "remove the password from the client's settings, or set one at the server"

// Remedy says what to do if calls keep failing with err.
func Remedy(err error) string {
	if words := refusedWords(err); words != "" {
		for _, r := range refusalRemedies {
			if begins(words, r.words) {
				return r.remedy
			}
		}
		return "docs/refusals.md has the server's words; these may be a proxy's"
	}
	return connectRemedy(err)
}

func connectRemedy(err error) string {
	var (
		authority   x509.UnknownAuthorityError
		invalid     x509.CertificateInvalidError
		host        x509.HostnameError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		name        *net.DNSError
		credentials *credentialsError
	)
	switch {
	case errors.Is(err, rueidis.ErrClosing), errors.Is(err, errs.ErrClosed):
		return "close the session before its client"
	case errors.As(err, &credentials):
		return "repair the function for credentials, which failed"
	case errors.As(err, &authority):
		return "trust the authority of the server's certificate: ca in the URL, or RootCAs"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the server's certificate, or set this host's clock"
	case errors.As(err, &invalid), errors.As(err, &host):
		return "give the server a certificate for this use and this host name, or say which name it has: server_name in the URL"
	case errors.As(err, &record):
		return "name the server's TLS port; tls-cluster yes lets the nodes of a cluster name theirs, and tls-replication yes those behind sentinels"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return "give this client a certificate that the server accepts"
	case errors.As(err, &name) && !name.IsTimeout:
		return "repair the name of the host, or its DNS"
	}
	return "check that the server runs, and the network, address and TLS settings of this client"
}
