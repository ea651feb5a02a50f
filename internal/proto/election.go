// SPDX-License-Identifier: Apache-2.0

package proto

// Election is a kind. Its leader holds a fair lock.
//
//nolint:gochecknoglobals // a constant table
var Election = Kind{
	Name:       "election",
	Options:    optionsOfLeases | OptionReplicas | OptionStepDown | OptionValue,
	Lease:      DefaultTerm,
	WholeLease: true,
}
