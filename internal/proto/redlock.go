// SPDX-License-Identifier: Apache-2.0

package proto

// Redlock is a kind. The part of a server is in its holder key.
//
//nolint:gochecknoglobals // a constant table
var Redlock = Kind{
	Name:    "redlock",
	Options: optionsOfLeases | OptionFixedLease | OptionMaxHold | OptionFenced | OptionMaxLease,
}
