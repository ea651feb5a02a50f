// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// PlainReply is the reply to RunPlain.
type PlainReply struct {
	IsSet bool          // the key was missing, and SET replied OK
	IsOwn bool          // the key had a life after that, and then still the value that was to be written
	Left  time.Duration // the life, if IsOwn is true
}

// RunPlain writes a key that is missing, until end, a text: milliseconds of the server's time. It sends SET NX PXAT, PTTL and GET in one
// pipeline. That SET replies OK is not enough: if end is over, the server replies so too, and has no key. The
// life alone is not enough either: the command of another client may have come between, and then it is of that client's key.
//
// Nothing is sent if the connection may have to be made (see detached.go), and the client repeats none of the commands: Arbitrary
// makes commands that are neither repeated nor sent to replicas. If IsSet is false, err is the error of SET: without one, or if its
// verdict is not Unknown, the server has nothing of the call. If IsSet is true, err is that of the other commands.
func (r *Runner) RunPlain(ctx context.Context, key, value, end string) (reply PlainReply, err error) {
	b := r.client.B()
	commands, _ := r.plainCommands.Get().(*[3]rueidis.Completed)
	if commands == nil {
		commands = new([3]rueidis.Completed)
	}
	commands[0] = b.Arbitrary("SET").Keys(key).Args(value, "NX", "PXAT", end).Build()
	last, epoch := r.connEpochOf(commands[0]), closedConns.Load()+1
	if last.Load() != epoch {
		return PlainReply{}, errUnsent
	}
	commands[1], commands[2] = b.Arbitrary("PTTL").Keys(key).Build(), b.Arbitrary("GET").Keys(key).Build()
	results := r.client.DoMulti(withoutDeadline(ctx), commands[:]...)
	if results[2].NonRedisError() == nil {
		r.plainCommands.Put(commands) // the client has the reply to the last one, and uses them no more
	}
	replied, err := NewReply(results[0])
	if rueidis.IsRedisNil(err) {
		return PlainReply{}, nil
	}
	switch {
	case errors.Is(err, errs.ErrClosed) && !r.isClosed(ctx):
		err = errConnClosed
	case err == nil && replied.Text(0) != "OK":
		err = ErrUnreadable
	}
	err = errs.OfCall(ctx, err)
	recordConnected(last, epoch, err)
	r.recordOutcome(ctx, err)
	if err != nil {
		return PlainReply{}, err
	}
	left, leftErr := NewReply(results[1])
	now, nowErr := NewReply(results[2])
	if rueidis.IsRedisNil(nowErr) {
		nowErr = nil // there is no key
	}
	return PlainReply{
		IsSet: true,
		IsOwn: leftErr == nil && nowErr == nil && left.Int(0) > 0 && now.Text(0) == value,
		Left:  time.Duration(left.Int(0)) * time.Millisecond,
	}, cmp.Or(leftErr, nowErr)
}

// HasUsed reports whether a script was executed with that key lately: the newest keys are remembered, as rights says.
func (r *Runner) HasUsed(key string) bool { return r.rights.has(key) }
