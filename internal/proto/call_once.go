// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

// OnceStore is the call of once/store.
type OnceStore struct{ Stamp, KeepMS, Value, Verb, Channel, ID string }

// AppendTo appends the arguments in the order of the header.
func (c OnceStore) AppendTo(args []string) []string {
	return append(args, c.Stamp, c.KeepMS, c.Value, c.Verb, c.Channel, c.ID)
}

// OnceStored is the reply of once/store.
type OnceStored struct {
	Code  wire.Code
	Other bool   // of NotDone: another run has stored its outcome
	Value string // that outcome
}

// ReadOnceStored reads the reply of once/store.
func ReadOnceStored(r *wire.Reply) OnceStored {
	return OnceStored{Code: r.Code(), Other: r.Len() > 1, Value: r.Text(1)}
}

// OnceForget is the call of once/forget.
type OnceForget struct{ Stamp string }

// AppendTo appends the arguments in the order of the header.
func (c OnceForget) AppendTo(args []string) []string { return append(args, c.Stamp) }

// OnceOutcome is the reply of once/read.
type OnceOutcome struct {
	Code  wire.Code
	Stamp string // that of the run's hold
	Value string
}

// ReadOnceOutcome reads the reply of once/read.
func ReadOnceOutcome(r *wire.Reply) OnceOutcome {
	return OnceOutcome{Code: r.Code(), Stamp: r.Text(1), Value: r.Text(2)}
}
