// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/pflag"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/redisson"
)

// layoutFlags are the flags that choose a layout of other clients.
type layoutFlags struct{ redisson bool }

// add adds the flags.
func (f *layoutFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.redisson, "redisson", false, "locks are those of Redisson, the Java client")
}

// chosen returns the flag that was given, and its layout; flag is "" for the library's own layout.
func (f *layoutFlags) chosen() (flag string, layout signalbox.Layout) {
	if f.redisson {
		return "--redisson", redisson.Layout()
	}
	return "", signalbox.Native()
}
