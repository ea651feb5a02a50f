// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"context"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

// Held is a lease, or a leader's term.
type Held interface {
	Err() error
	Unlock() error
}

// leaderTerm is a term that is ended as a lease is.
type leaderTerm struct{ election.Term }

// Unlock ends the term.
func (t leaderTerm) Unlock() error { return t.Resign() }

// MixedKinds is how many kinds Mixed has, and MixedKeys how many keys the holds of all of them have.
const MixedKinds, MixedKeys = 10, 14

// Mixed acquires the n-th of many names. The kinds take turns. No two calls hold a name at the same time, unless both read
// one, and waits says that this call does not read.
func Mixed(ctx context.Context, s *signalbox.Session, n int, waits bool, options ...signalbox.LockOption) (Held, error) { //nolint:revive // two callers, one of each
	name := fmt.Sprint("mixed-", n)
	switch n % MixedKinds {
	case 0:
		return fair.New(s, name, options...).Lock(ctx)
	case 1:
		return rwlock.New(s, name, options...).Lock(ctx)
	case 2:
		if waits {
			return rwlock.New(s, name, options...).Lock(ctx)
		}
		return rwlock.New(s, name, options...).RLock(ctx)
	case 3:
		return semaphore.New(s, name, 2, options...).Acquire(ctx, 2)
	case 4:
		term, err := election.New(s, name, options...).Campaign(ctx)
		return leaderTerm{term}, err
	case 5:
		return multilock.New(reentrant.New(s, name+"/a", options...), reentrant.New(s, name+"/b", options...),
			reentrant.New(s, name+"/c", options...)).Lock(ctx)
	case 6:
		return multilock.New(fair.New(s, name+"/a", options...), rwlock.New(s, name+"/b", options...),
			semaphore.New(s, name+"/c", 3, options...).Permits(2)).Lock(ctx)
	case 7:
		return RedissonReentrant().New(s, name, options...).Lock(ctx)
	case 8:
		return SetNX().New(s, name, options...).Lock(ctx)
	}
	return reentrant.New(s, name, options...).Lock(ctx)
}
