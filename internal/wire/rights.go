// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/signalbox-go/signalbox/internal/errs"
)

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
