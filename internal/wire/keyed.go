// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"slices"

	"github.com/signalbox-go/signalbox/scripts"
)

// KeyedCall is a call of a script that does the same for each of many keys, which may be in different slots. It
// treats each key as if that was the only one, and returns a number for each.
type KeyedCall struct {
	Script  *scripts.Script
	Keys    []string
	Shared  []string // the first arguments of the script, for all keys
	PerKey  []string // the arguments of the first key, then of the second, and so on
	MaxKeys int      // the most keys that one script may have
	// LossValue is the number for a key that the server does not have, if HasLoss says that this is a loss for the
	// caller. A shard that does not have the key's slot returns it too, so the call is repeated for that key alone.
	LossValue int64
	HasLoss   bool
}

// KeyedReply is the number that a script returned for one key, or the error if it is not known.
type KeyedReply struct {
	Value int64
	Err   error
}

// RunByKey sends the script in one pipeline: for as many keys at a time as it may have, or for one key at a time as
// long as SpansSlots is false. In a cluster that is one key, also within a slot: a slot that is being moved refuses
// more.
//
// No reply to a script with keys of several slots is trusted if it is bad for a key. If the script is refused, or
// says that a key is lost, the server is asked again at once, for each such key alone.
func (r *Runner) RunByKey(ctx context.Context, c KeyedCall) []KeyedReply {
	replies := make([]KeyedReply, len(c.Keys))
	all := make([]int, len(c.Keys))
	for i := range all {
		all[i] = i
	}
	if len(all) < 2 || !r.Span.SpansSlots(ctx) {
		r.runParts(ctx, &c, all, 1, replies)
		return replies
	}
	r.runParts(ctx, &c, all, c.MaxKeys, replies)
	again := slices.DeleteFunc(all, func(i int) bool { return !c.needsConfirmation(replies[i]) })
	for _, reply := range replies {
		if reply.Err != nil {
			r.Span.SpanFailed(reply.Err)
			break
		}
	}
	if len(again) == 0 {
		return replies
	}
	before := slices.Clone(replies)
	r.runParts(ctx, &c, again, 1, replies)
	for _, i := range again {
		if before[i].Err == nil && replies[i].Err == nil && replies[i].Value != c.LossValue {
			r.Span.spanUncertain() // the script ran at a shard that does not have the key
			break
		}
	}
	return replies
}

// needsConfirmation reports whether what a script with keys of several slots returned for one of them has to be confirmed.
func (c *KeyedCall) needsConfirmation(reply KeyedReply) bool {
	if reply.Err != nil {
		return mayBeOfSlots(reply.Err)
	}
	return c.HasLoss && reply.Value == c.LossValue
}

// runParts sends the script for those keys that which lists, size of them at a time, and records in replies what
// the server returns for each.
func (r *Runner) runParts(ctx context.Context, c *KeyedCall, which []int, size int, replies []KeyedReply) {
	parts := slices.Collect(slices.Chunk(which, size))
	calls := make([]Call, len(parts))
	for n, part := range parts {
		calls[n] = c.call(part)
	}
	for n, outcome := range r.RunMany(ctx, calls) {
		for i, key := range parts[n] {
			switch {
			case outcome.Err != nil:
				replies[key] = KeyedReply{Err: outcome.Err}
			case i >= outcome.Reply.Len():
				replies[key] = KeyedReply{Err: ErrUnreadable}
			default:
				replies[key] = KeyedReply{Value: outcome.Reply.Int(i)}
			}
		}
	}
}

// call returns the call for those keys that which lists.
func (c *KeyedCall) call(which []int) Call {
	each := len(c.PerKey) / len(c.Keys)
	call := Call{Script: c.Script, Keys: make([]string, 0, len(which)), Args: make([]string, 0, len(c.Shared)+each*len(which))}
	call.Args = append(call.Args, c.Shared...)
	for _, i := range which {
		call.Keys = append(call.Keys, c.Keys[i])
		call.Args = append(call.Args, c.PerKey[each*i:each*(i+1)]...)
	}
	return call
}
