// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"strings"

	"github.com/signalbox-go/signalbox/internal/proto"
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
// The call of script is a proto.Yield.
func (a *Attempt) Yield(ctx context.Context, script *scripts.Script) (YieldResult, error) {
	registry := a.q.registry
	sent := timers.Now()
	reply, err := registry.session.Runner.Run(ctx, yieldExchange{a}.yieldCall(script))
	if err != nil {
		return YieldGone, err
	}
	switch yielded := proto.ReadYielded(&reply); yielded.Code {
	case wire.NotDone:
		return YieldGone, nil
	case wire.Done:
		registry.mu.Lock()
		defer registry.mu.Unlock()
		a.grant = Grant{Stamp: yielded.Stamp, Last: yielded.Stamp.BlockEnd(), Life: a.request.Life, Sent: sent, Read: timers.Mono()}
		return YieldKept, nil
	default: // the hold was released
		a.end()
		leaveExchange{a}.applyGranted(yielded.Granted)
		leaveExchange{a}.finish(false)
		return YieldReleased, nil
	}
}

func (a yieldExchange) yieldCall(script *scripts.Script) wire.Call {
	s := a.q.registry.session
	yield := proto.Yield{
		Hold: a.Name(), LifeUS: micros(a.request.Life), Attempts: a.waitingWithSameKey(), Session: s.ID(), Verb: s.PublishCommand(),
		Channel: a.q.channel(), KeepMS: a.request.FloorTTL,
	}
	return wire.Call{Script: script, Keys: a.q.keys.AppendKeys(nil), Args: yield.AppendTo(nil)}
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
