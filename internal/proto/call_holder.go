// SPDX-License-Identifier: Apache-2.0

package proto

import "github.com/signalbox-go/signalbox/internal/wire"

// HolderDescribed is the reply of holder/describe.
type HolderDescribed struct {
	Code            wire.Code
	Kind, ID, Label string
	Stamp           wire.Stamp // that of the hold; 0 if it is not known
	EndsMS          int64      // less than 0 if the key has no end
}

// ReadHolderDescribed reads the reply of holder/describe.
func ReadHolderDescribed(r *wire.Reply) HolderDescribed {
	return HolderDescribed{Code: r.Code(), Kind: r.Text(1), Stamp: r.Stamp(2), ID: r.Text(3), Label: r.Text(4), EndsMS: r.Int(5)}
}

// Renewal is what the call of holder/renew, holds/renew and lock/keep has for each key.
type Renewal struct{ Hold, TTLMS string }

// AppendTo appends the arguments in the order of the header.
func (c Renewal) AppendTo(args []string) []string { return append(args, c.Hold, c.TTLMS) }

// RenewalAt returns what the arguments of a call have for the k-th key.
func RenewalAt(args []string, k int) Renewal { return Renewal{args[2*k], args[2*k+1]} }

// HoldsList is the call of holds/list.
type HoldsList struct{ Kind, From, Count string }

// AppendTo appends the arguments in the order of the header.
func (c HoldsList) AppendTo(args []string) []string { return append(args, c.Kind, c.From, c.Count) }

// HoldsListed is the reply of holds/list.
type HoldsListed struct {
	Floor wire.Stamp // that of the tokens; 0 if the key has none
	Phase string     // "" if the key has none
	Holds []ListedHold
}

// ListedHold is a hold of a list, and when it ends.
type ListedHold struct {
	Name string
	Ends wire.Stamp
}

// ReadHoldsListed reads the reply of holds/list. It returns ErrWrongKind for a key of another kind.
func ReadHoldsListed(r *wire.Reply) (HoldsListed, error) {
	if r.Len() == 2 && r.Code() == wire.Foreign {
		return HoldsListed{}, WrongKind(r.Text(1))
	}
	l := HoldsListed{Floor: r.Stamp(0), Phase: r.Text(1), Holds: make([]ListedHold, 0, r.Len()/2)}
	for at := 2; at+1 < r.Len(); at += 2 {
		l.Holds = append(l.Holds, ListedHold{Name: r.Text(at), Ends: r.Stamp(at + 1)})
	}
	return l, nil
}

// PermitsForce is the call of SemaphoreTable.Force.
type PermitsForce struct{ Verb, Channel, ForcedChannel, Sessions, IDs string }

// AppendTo appends the arguments in the order of the header.
func (c PermitsForce) AppendTo(args []string) []string {
	return append(args, c.Verb, c.Channel, c.ForcedChannel, c.Sessions, c.IDs)
}
