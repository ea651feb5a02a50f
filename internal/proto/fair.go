// SPDX-License-Identifier: Apache-2.0

package proto

// Fair is a kind. Its holds are in the holder key.
//
//nolint:gochecknoglobals // a constant table
var Fair = Kind{
	Name:     "fair",
	Options:  optionsOfLocks | OptionWanted,
	Lost:     "lock",
	InLayout: func(l *Layout) bool { return l.Fair != nil },
}
