// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"time"
)

// waitLimit is the value of --wait: a duration, or seconds as flock(1) has them.
type waitLimit struct {
	d   time.Duration
	set bool // there is a limit
}

// String implements pflag.Value.
func (w *waitLimit) String() string {
	if !w.set {
		return ""
	}
	return w.d.String()
}

// Set implements pflag.Value.
func (w *waitLimit) Set(text string) error {
	d, err := parseDuration(text)
	if err != nil || d < 0 {
		return errors.New("it must be a duration such as 5s, or a number of seconds, of 0 or more")
	}
	w.d, w.set = d, true
	return nil
}

// Type implements pflag.Value.
func (w *waitLimit) Type() string { return "duration" }
