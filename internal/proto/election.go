// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

// Election is a kind. Its leader holds a fair lock.
//
//nolint:gochecknoglobals // a constant table
var Election = Kind{
	Name:       "election",
	Options:    optionsOfLeases | OptionReplicas | OptionStepDown | OptionValue,
	Lease:      DefaultTerm,
	WholeLease: true,
}

// The scripts of the election.
//
//nolint:gochecknoglobals // constants in all but name
var (
	ElectionPutScript       = mustLoad("election/put", 1)
	ElectionClearScript     = mustLoad("election/clear", 1)
	ElectionReadScript      = mustLoad("election/read", 1)
	ElectionMoveScript      = mustLoad("election/move", 1)
	ElectionRequestedScript = mustLoad("election/requested", 1)
)

// ElectionPut is the call of election/put.
type ElectionPut struct{ ID, Number, Text, KeepMS, Verb, Channel string }

// AppendTo appends the arguments in the order of the header.
func (c ElectionPut) AppendTo(args []string) []string {
	return append(args, c.ID, c.Number, c.Text, c.KeepMS, c.Verb, c.Channel)
}

// ElectionClear is the call of election/clear.
type ElectionClear struct{ ID, Verb, Channel string }

// AppendTo appends the arguments in the order of the header.
func (c ElectionClear) AppendTo(args []string) []string { return append(args, c.ID, c.Verb, c.Channel) }

// ElectionMove is the call of election/move.
type ElectionMove struct{ ID, Member, KeepUS, NotAfter string }

// AppendTo appends the arguments in the order of the header.
func (c ElectionMove) AppendTo(args []string) []string {
	return append(args, c.ID, c.Member, c.KeepUS, c.NotAfter)
}

// ElectionMoved is the reply of election/move.
type ElectionMoved struct {
	Code  wire.Code
	Found bool       // of Done: a candidate is alive, and the request was made
	Now   wire.Stamp // the server's time; 0 if the reply has none
}

// ReadElectionMoved reads the reply of election/move.
func ReadElectionMoved(r *wire.Reply) ElectionMoved {
	return ElectionMoved{Code: r.Code(), Found: r.Int(1) == 1, Now: r.Stamp(1)}
}

// ElectionRequested is the call of election/requested.
type ElectionRequested struct{ ID string }

// AppendTo appends the arguments in the order of the header.
func (c ElectionRequested) AppendTo(args []string) []string { return append(args, c.ID) }

// ElectionValue is the reply of election/read.
type ElectionValue struct {
	Code wire.Code
	ID   string // the hold that wrote the value; "" if there is none
	Text string
}

// ReadElectionValue reads the reply of election/read.
func ReadElectionValue(r *wire.Reply) ElectionValue {
	return ElectionValue{Code: r.Code(), ID: r.Text(1), Text: r.Text(2)}
}
