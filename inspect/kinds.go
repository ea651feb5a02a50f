// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// The kinds of entries.
const (
	Reentrant = "reentrant"
	Fair      = "fair"
	RWLock    = "rwlock"
	Semaphore = "semaphore"
	Countdown = "countdown"
	Redlock   = "redlock"
	Election  = "election"
	Once      = "once"
	// Shards is a group of shards. Its holders are its members, by the end of their leases.
	Shards = "shards"

	// Exclusive is a reentrant or a fair lock, if the server does not know which.
	Exclusive = proto.ExclusiveUse
	// Foreign is a key of another program where a lock would have its key: calls on that name return
	// signalbox.ErrWrongKind.
	Foreign = proto.ForeignUse
	// Number is a number in a layout of others: a latch, a semaphore whose permits are free, or a counter of another
	// program.
	Number = proto.NumberUse
)

// Kinds returns every Kind that an Entry can have.
func Kinds() []string {
	var kinds []string
	for _, k := range proto.All {
		kinds = append(kinds, k.Name)
	}
	return append(kinds, Exclusive, Foreign, Number)
}

// breakers end the holds of a name, by kind. A lock whose kind is not known is broken as a reentrant one is.
//
//nolint:gochecknoglobals // a constant table
var breakers = map[string]func(ctx context.Context, s *signalbox.Session, name string) error{
	Reentrant: func(ctx context.Context, s *signalbox.Session, name string) error {
		return reentrant.New(s, name).ForceUnlock(ctx)
	},
	Fair: breakFair,
	RWLock: func(ctx context.Context, s *signalbox.Session, name string) error {
		return rwlock.New(s, name).ForceUnlock(ctx)
	},
	Semaphore: breakPermits,
	Countdown: func(ctx context.Context, s *signalbox.Session, name string) error {
		return countdown.New(s, name).Reset(ctx)
	},
	Redlock:  breakRedlockPart,
	Election: breakFair,
	Once:     breakFair,
	Shards:   breakMembers,
}

func breakFair(ctx context.Context, s *signalbox.Session, name string) error {
	return fair.New(s, name).ForceUnlock(ctx)
}
