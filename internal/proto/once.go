// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Once is a kind. Its use is an outcome that is stored: while a function runs, its call holds a fair lock.
//
//nolint:gochecknoglobals // a constant table
var Once = Kind{
	Name:       "once",
	Options:    optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionReplicas | OptionKeepOutcome | OptionLinger,
	WholeLease: true,
	Key:        Set.Outcome,
	Read:       readOutcome,
	Summary: func(u *Use) string {
		return fmt.Sprintf("an outcome is stored, of a run that began %s, until %s", moment(u.Since), moment(u.Until))
	},
}

// The scripts of the kind.
//
//nolint:gochecknoglobals // constants in all but name
var (
	OnceReadScript   = mustLoad("once/read", 1)
	OnceStoreScript  = mustLoad("once/store", 1)
	OnceForgetScript = mustLoad("once/forget", 1)
)

// moment returns a time of the server, or a dash.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// outcomeHead is how an outcome begins: sb1o and a stamp.
const outcomeHead = 20

func readOutcome(i *Inspection) {
	i.Query(ReadStringCall(i.Key, outcomeHead), func(reply wire.Reply) {
		outcome := ReadStringHead(&reply)
		switch head := outcome.Head; {
		case head == "":
		case len(head) != outcomeHead || head[:4] != "sb1o":
			i.SetForeign()
		default:
			i.InUse = true
			stamp := wire.ParseStamp(head[4:])
			i.Use.Since, i.Use.Token = stamp.Time(), stamp.Token()
			i.Use.Until = outcome.Ends
		}
	})
}

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
