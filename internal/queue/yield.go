// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"

	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// YieldResult is the result of a Yield.
type YieldResult int

const (
	// YieldGone says that the hold no longer has the lock.
	YieldGone YieldResult = iota
	// YieldKept says that the hold continues, with a new grant.
	YieldKept
	// YieldReleased says that the hold was released for other waiters in the queue.
	YieldReleased
)

// Yield asks with script whether the unused hold of a may continue for local waiters with the same share key. The hold
// continues if only these waiters are in the queue, and is released otherwise. After an error the outcome is unknown.
//
// The arguments of script are the name, the life with which the hold continues, and the attempts of these waiters, followed by
// the arguments of Leave without the name. If script released the hold, it replies like Leave, but with 2. It replies 0 if a
// has nothing any more; or 1, the time, and the stamp of new tokens, if the hold continues.
func (a *Attempt) Yield(ctx context.Context, script *scripts.Script) (YieldResult, error) {
	registry := a.q.registry
	sent := timers.Now()
	reply, err := registry.session.Runner.Run(ctx, yieldExchange{a}.yieldCall(script))
	if err != nil {
		return YieldGone, err
	}
	switch reply.Code() {
	case wire.NotDone:
		return YieldGone, nil
	case wire.Done:
		registry.mu.Lock()
		defer registry.mu.Unlock()
		stamp := reply.Stamp(2)
		a.grant = Grant{Stamp: stamp, Last: stamp.BlockEnd(), Life: a.request.Life, Sent: sent, Read: timers.Mono()}
		return YieldKept, nil
	default: // the hold was released
		a.end()
		leaveExchange{a}.readGrants(reply)
		leaveExchange{a}.finish(false)
		return YieldReleased, nil
	}
}

func (a yieldExchange) yieldCall(script *scripts.Script) wire.Call {
	leave := leaveExchange(a).leaveCall(nil, nil, 0)
	return wire.Call{
		Script: script,
		Keys:   leave.Keys,
		Args:   append([]string{leave.Args[0], micros(a.request.Life), a.waitingWithSameKey()}, leave.Args[1:]...),
	}
}

// waitingWithSameKey returns the waiting attempts of this session to which the hold of a can be handed over, among the first
// maxListed. More attempts wait only for a moment.
func (a yieldExchange) waitingWithSameKey() string {
	a.q.registry.mu.Lock()
	defer a.q.registry.mu.Unlock()
	var ids strings.Builder
	if a.q.waitState == nil {
		return ""
	}
	first := 0
	for other := range a.q.waiting.all() {
		if first++; first > maxListed {
			break
		}
		if other.state == queued && other.request.ShareKey == a.request.ShareKey {
			ids.WriteString(other.attempt())
		}
	}
	return ids.String()
}
