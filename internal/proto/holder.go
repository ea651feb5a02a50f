// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// The scripts of the holder key, and of keys with several holds.
//
//nolint:gochecknoglobals // constants in all but name
var (
	HolderDescribeScript = mustLoad("holder/describe", 1)
	HolderForceScript    = mustLoad("holder/force", 1)
	HolderRenewScript    = mustLoad("holder/renew", 1)

	HoldsRenewScript = mustLoad("holds/renew", 1)
	HoldsDropScript  = mustLoad("holds/drop", 1)
	HoldsListScript  = mustLoad("holds/list", 1)
)

// HolderInfo describes the holder of a lock. signalbox.Holder has the same fields, and documents them.
type HolderInfo struct {
	Kind           string
	Shared         bool
	MayBeIdle      bool
	Label, Session string
	Since, Until   time.Time
	Token          uint64
}

// KindName returns the kind for a letter of a holder key: the letter itself if a later release wrote it.
func KindName(letter string) string {
	if name, known := kindsByLetter[letter]; known {
		return name
	}
	return letter
}

// WrongKind returns the error of a call that found a key of another kind: by its letter, or "?" if it is no
// lock.
func WrongKind(letter string) error {
	if letter == "?" {
		return fmt.Errorf("%w: the key is not a lock's", errs.ErrWrongKind)
	}
	return fmt.Errorf("%w: a lock of another kind holds it (%s)", errs.ErrWrongKind, KindName(letter))
}

// DescribeCall is the call that describes the holder of a lock of the layout. ReadHold of the layout reads its reply.
func (l *Layout) DescribeCall(key string) wire.Call {
	return wire.Call{Script: l.Describe, Keys: []string{key}}
}

// ReadHold returns what the reply to DescribeCall says: the holder, its hold, and the letter of its kind; or ErrNotHeld.
func (l *Layout) ReadHold(reply wire.Reply) (holder HolderInfo, hold, letter string, err error) {
	d := ReadHolderDescribed(&reply)
	switch {
	case d.Code == wire.NotDone:
		return holder, "", "", errs.ErrNotHeld
	case d.Code < wire.NotDone:
		return holder, "", "", WrongKind("?")
	}
	holder = HolderInfo{Kind: KindName(d.Kind), MayBeIdle: d.Kind == keptMode, Label: d.Label, Session: l.Session(d.ID)}
	if d.Stamp != 0 {
		holder.Since, holder.Token = d.Stamp.Time(), d.Stamp.Token()
	}
	holder.Until = d.Ends
	return holder, d.ID, d.Kind, nil
}

// HoldLister lists the holds of a key which has several.
type HoldLister struct {
	// List is the script. It has the arguments of holds/list.
	List *scripts.Script
	// Member is what a key of the kind has as a member; "" in a layout of others.
	Member string
}

// ListCall is the call that lists count holds of a key, from the one with the index from on.
func (l *HoldLister) ListCall(key string, from, count int) wire.Call {
	list := HoldsList{Kind: l.Member, From: strconv.Itoa(from), Count: strconv.Itoa(count)}
	return wire.Call{Script: l.List, Keys: []string{key}, Args: list.AppendTo(nil)}
}

// HoldID identifies a hold for people: another hold has another one. It is a digest, since a client that knows the
// hold itself may release it.
func HoldID(hold string) string {
	sum := sha256.Sum256([]byte(hold))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// RoundID identifies the round of a latch that began at that time of the server.
func RoundID(began time.Time) string {
	return HoldID("round " + strconv.FormatInt(began.UnixMicro(), 10))
}

// HolderDescribed is the reply of holder/describe.
type HolderDescribed struct {
	Code            wire.Code
	Kind, ID, Label string
	Stamp           wire.Stamp // that of the hold; 0 if it is not known
	Ends            time.Time  // when the key ends; the zero time if it has no end
}

// ReadHolderDescribed reads the reply of holder/describe.
func ReadHolderDescribed(r *wire.Reply) HolderDescribed {
	return HolderDescribed{Code: r.Code(), Kind: r.Text(1), Stamp: r.Stamp(2), ID: r.Text(3), Label: r.Text(4), Ends: endOf(r.Int(5))}
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
