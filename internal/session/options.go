// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
)

// Kind is a kind of lock, by the name of its package.
type Kind string

// The kinds that have options.
const (
	Reentrant Kind = "reentrant"
	Fair      Kind = "fair"
	RWLock    Kind = "rwlock"
	Semaphore Kind = "semaphore"
	Countdown Kind = "countdown"
	Redlock   Kind = "redlock"
	Election  Kind = "election"
	Once      Kind = "once"
	Shards    Kind = "shards"
)

// allKinds is every one of them.
//
//nolint:gochecknoglobals // a constant table
var allKinds = []Kind{Reentrant, Fair, RWLock, Semaphore, Countdown, Redlock, Election, Once, Shards}

// OptionID names an option of locks, so that a lock knows which it was given.
type OptionID uint32

// The options. Each has a row in the table below.
const (
	RenewedLease OptionID = 1 << iota
	FixedLease
	MaxHold
	WaitReplicas
	Layout // of others
	Native
	ExactCapacity
	Plain
	Keep
	Fenced
	GreatestLease
	TokenFloor
	StepDown
	Value
	FirstLease
	KeepOutcome
	MaxWaiters
	Class
	Linger
	ShardWeight
	ShardLimit
	ShardValue
	RebalanceDelay
	Moves
	DrainLimit
	Retry
	KeepWarm
	Wanted
)

// optionRow says which kinds have an option, and how a lock of another kind drops a default of it. drop
// is nil if such a lock ignores what the option sets.
type optionRow struct {
	option OptionID
	name   string
	kinds  []Kind
	drop   func(*LockSettings)
}

// optionTable is all options.
//
//nolint:gochecknoglobals // a constant table
var optionTable = []optionRow{
	{RenewedLease, "WithRenewedLease", []Kind{Reentrant, Fair, RWLock, Semaphore, Redlock, Election, Once, Shards}, nil},
	{FixedLease, "WithFixedLease", []Kind{Reentrant, Fair, RWLock, Semaphore, Redlock, Once}, func(l *LockSettings) { l.Fixed = false }},
	{MaxHold, "WithMaxHold", []Kind{Reentrant, Fair, RWLock, Semaphore, Redlock, Once}, func(l *LockSettings) { l.MaxHold = 0 }},
	{WaitReplicas, "WithReplicas", []Kind{Reentrant, Fair, RWLock, Semaphore, Election, Once}, func(l *LockSettings) { l.Replicas = Replicas{} }},
	{TokenFloor, "WithTokenFloor", []Kind{Reentrant, Fair, RWLock, Semaphore, Redlock, Election, Once}, nil},
	{FirstLease, "WithFirstLease", []Kind{Reentrant, Fair, RWLock, Semaphore, Redlock, Election, Once}, nil},
	// The layout says which kinds have it. As a default it is not dropped: the lock would not be the one that others use.
	{Layout, "WithLayout", nil, nil},
	{Native, "WithLayout(Native)", allKinds, nil},
	{ExactCapacity, "ExactCapacity", []Kind{Semaphore}, func(l *LockSettings) { l.Exact = false }},
	{Plain, "Plain", []Kind{Semaphore}, func(l *LockSettings) { l.Plain = false }},
	{Keep, "Keep", []Kind{Countdown}, func(l *LockSettings) { l.Keep = 0 }},
	{KeepOutcome, "once.Keep", []Kind{Once}, func(l *LockSettings) { l.Outcome = 0 }},
	{Linger, "once.Linger", []Kind{Once}, nil},
	{MaxWaiters, "WithMaxWaiters", []Kind{Reentrant, Fair, RWLock, Semaphore}, func(l *LockSettings) { l.MaxWaiters = 0 }},
	{KeepWarm, "WithKeepWarm", []Kind{Reentrant}, func(l *LockSettings) { l.KeepWarm = 0 }},
	{Wanted, "WithWanted", []Kind{Reentrant, Fair}, func(l *LockSettings) { l.Wanted = false }},
	{Fenced, "Fenced", []Kind{Redlock}, func(l *LockSettings) { l.Quorum.Fenced = false }},
	{StepDown, "StepDown", []Kind{Election}, func(l *LockSettings) { l.Election.StepDown = 0 }},
	{Value, "Value", []Kind{Election}, func(l *LockSettings) { l.Election.Value = "" }},
	{ShardWeight, "shards.Weight", []Kind{Shards}, func(l *LockSettings) { l.Shards.Weight = 0 }},
	{ShardLimit, "shards.Limit", []Kind{Shards}, func(l *LockSettings) { l.Shards.Limit = 0 }},
	{ShardValue, "shards.Value", []Kind{Shards}, func(l *LockSettings) { l.Shards.Value = "" }},
	{RebalanceDelay, "RebalanceDelay", []Kind{Shards}, func(l *LockSettings) { l.Shards.RebalanceDelay = 0 }},
	{Moves, "Moves", []Kind{Shards}, func(l *LockSettings) { l.Shards.Moves = 0 }},
	{DrainLimit, "DrainLimit", []Kind{Shards}, func(l *LockSettings) { l.Shards.DrainLimit = 0 }},
	{Retry, "Retry", []Kind{Shards}, func(l *LockSettings) { l.Shards.RetryMin, l.Shards.RetryMax = 0, 0 }},
	{Class, "WithClass", allKinds, nil},
	{GreatestLease, "GreatestLease", []Kind{Redlock}, func(l *LockSettings) { l.Quorum.Greatest = 0 }},
}

// Give records that the lock was given an option, valid or not.
func (l *LockSettings) Give(o OptionID) { l.Given |= o }

// Option returns the option o. It calls set, unless err says what is wrong with its value.
func Option(o OptionID, err error, set func(*LockSettings)) func(*LockSettings) {
	return func(l *LockSettings) {
		l.Give(o)
		if err != nil {
			l.Fail(err)
			return
		}
		set(l)
	}
}

// GiveLayout records that the lock was given a layout. The library's own cancels one of others; any other pair of layouts
// is a contradiction.
func (l *LockSettings) GiveLayout(in *layout.Layout) {
	option := Layout
	switch {
	case in == layout.Native():
		option = Native
		l.Given &^= Layout
		l.Plain = l.Plain && l.Given&Plain != 0
	case l.Given&(Layout|Native) != 0 && l.Layout != in:
		l.layoutConflict = contradiction(layoutOption(l.Layout), layoutOption(in))
	}
	l.Give(option)
	l.Layout = in
}

// layoutOption is what errors call the option of a layout.
func layoutOption(l *layout.Layout) string { return "WithLayout(" + l.Name + ")" }

// StartFor turns l, a copy of the session's defaults, into the settings that a lock of kind starts
// from: it drops the options that the kind does not have. An election's term and the function of a once
// have their whole lease from the start, unless the session has a default: their work is long, and a short
// outage at its beginning would end a term, or let the function run twice. The leases of candidates and of members of a
// group are shorter than those of locks, unless the session has a default.
func (l *LockSettings) StartFor(kind Kind) {
	if (l.Given&RenewedLease == 0 || l.Fixed) && (kind == Election || kind == Shards) {
		l.Lease = DefaultTerm
	}
	if l.Given&FirstLease == 0 && (kind == Election || kind == Once) {
		l.FirstLease = MaxLease
	}
	for _, r := range optionTable {
		if l.Given&r.option != 0 && r.drop != nil && !slices.Contains(r.kinds, kind) {
			r.drop(l)
		}
	}
	l.Given = 0
}

// Unsupported returns an error if the lock was given an option that locks in this layout do not have. A
// default of the session is no error.
func (l *LockSettings) Unsupported(in string) error {
	for _, o := range []struct {
		option OptionID
		name   string
	}{{Keep, "Keep"}, {TokenFloor, "WithTokenFloor"}, {FirstLease, "WithFirstLease"}, {KeepWarm, "WithKeepWarm"}, {Wanted, "WithWanted"}} {
		if l.Given&o.option != 0 {
			return fmt.Errorf("%w: %s: a lock in the layout of %s does not have it", errs.ErrBadOption, o.name, in)
		}
	}
	return nil
}

// contradictions are options that say different things about one lease.
//
//nolint:gochecknoglobals // a constant table
var contradictions = [][2]OptionID{{RenewedLease, FixedLease}, {MaxHold, FixedLease}, {KeepWarm, FixedLease}, {KeepWarm, MaxHold}, {Wanted, FixedLease}}

// Contradiction returns an error if two of the options given contradict each other: the lock cannot have both, and must not
// choose in silence.
func (l *LockSettings) Contradiction() error {
	for _, pair := range contradictions {
		if both := pair[0] | pair[1]; l.Given&both == both {
			return contradiction(nameOf(pair[0]), nameOf(pair[1]))
		}
	}
	return l.layoutConflict
}

func contradiction(one, other string) error {
	return fmt.Errorf("%w: %s and %s contradict each other: give one of them", errs.ErrBadOption, one, other)
}

func nameOf(o OptionID) string {
	return optionTable[slices.IndexFunc(optionTable, func(r optionRow) bool { return r.option == o })].name
}

// checkKind returns an error if the lock was given an option that its kind does not have.
func (l *LockSettings) checkKind(kind Kind) error {
	for _, r := range optionTable {
		if r.option == Layout && l.Given&Layout != 0 {
			r.name, r.kinds = layoutOption(l.Layout), kindsOf(l.Layout)
		}
		if l.Given&r.option == 0 || slices.Contains(r.kinds, kind) {
			continue
		}
		kinds := make([]string, len(r.kinds))
		for i, k := range r.kinds {
			kinds[i] = string(k)
		}
		return fmt.Errorf("%w: %s is not an option of %s: these have it: %s", errs.ErrBadOption, r.name, kind, strings.Join(kinds, ", "))
	}
	return nil
}

// kindsOf returns the kinds that a layout of others has.
func kindsOf(l *layout.Layout) (kinds []Kind) {
	for kind, has := range map[Kind]bool{
		Reentrant: l.Lock != nil, Fair: l.Fair != nil, RWLock: l.RWLock != nil, Semaphore: l.Semaphore != nil, Countdown: l.Latch != nil,
	} {
		if has {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}
