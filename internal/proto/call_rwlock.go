// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

// RWForce is the call of rwlock/force.
type RWForce struct{ Verb, Channel, ForcedChannel, Holds, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c RWForce) AppendTo(args []string) []string {
	return append(args, c.Verb, c.Channel, c.ForcedChannel, c.Holds, c.KeepMS)
}

// Downgrade is the call of rwlock/downgrade.
type Downgrade struct{ Hold, Session, Verb, Channel, KeepMS string }

// AppendTo appends the arguments in the order of the header.
func (c Downgrade) AppendTo(args []string) []string {
	return append(args, c.Hold, c.Session, c.Verb, c.Channel, c.KeepMS)
}

// Downgraded is the reply to a downgrade: wire.NotDone if the hold is gone.
type Downgraded struct {
	Granted

	Code wire.Code
}

// ReadDowngraded reads the reply to a downgrade.
func ReadDowngraded(r *wire.Reply) Downgraded { return Downgraded{readGranted(r), r.Code()} }

// MayShare is the call of rwlock/may-share.
type MayShare struct{ Hold string }

// AppendTo appends the arguments in the order of the header.
func (c MayShare) AppendTo(args []string) []string { return append(args, c.Hold) }
