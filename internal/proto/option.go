// SPDX-License-Identifier: Apache-2.0

package proto

import (
	"math/bits"
	"strings"
)

// Option names an option of locks, so that a lock knows which it was given. Or joins several.
type Option uint32

// The options. Each has its name in the table below, in the same order.
const (
	OptionRenewedLease Option = 1 << iota
	OptionFixedLease
	OptionMaxHold
	OptionReplicas
	OptionLayout // of others: the layout says which kinds have it
	OptionNative
	OptionExactCapacity
	OptionPlain
	OptionKeep
	OptionFenced
	OptionMaxLease
	OptionTokenFloor
	OptionStepDown
	OptionValue
	OptionFirstLease
	OptionKeepOutcome
	OptionMaxWaiters
	OptionClass
	OptionLinger
	OptionShardWeight
	OptionShardLimit
	OptionShardValue
	OptionRebalanceDelay
	OptionMoves
	OptionDrainLimit
	OptionRetry
	OptionKeepWarm
	OptionWanted
)

//nolint:gochecknoglobals // a constant table
var optionNames = [...]string{
	"WithRenewedLease", "WithFixedLease", "WithMaxHold", "WithReplicas", "WithLayout", "WithLayout(Native)", "ExactCapacity", "Plain", "Keep",
	"Fenced", "MaxLease", "WithTokenFloor", "StepDown", "Value", "WithFirstLease", "once.Keep", "WithMaxWaiters", "WithClass", "once.Linger",
	"shards.Weight", "shards.Limit", "shards.Value", "RebalanceDelay", "MaxMoves", "DrainLimit", "Retry", "WithKeepWarm", "WithWanted",
}

const (
	// optionsOfAll are the options that every kind takes.
	optionsOfAll = OptionNative | OptionClass
	// optionsOfLeases are those of kinds whose holds are leases with a token.
	optionsOfLeases = OptionRenewedLease | OptionFirstLease | OptionTokenFloor
	// optionsOfLocks are those of the locks of one server.
	optionsOfLocks = optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionReplicas | OptionMaxWaiters
)

// First returns the first of the options, or 0.
func (o Option) First() Option { return o & -o }

// String returns what errors call the options.
func (o Option) String() string {
	var names []string
	for ; o != 0; o &= o - 1 {
		names = append(names, optionNames[bits.TrailingZeros32(uint32(o))])
	}
	return strings.Join(names, ", ")
}
