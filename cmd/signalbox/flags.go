// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-go/signalbox/internal/words"
)

// parseDuration reads a duration, or a number of seconds.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if seconds, failed := strconv.ParseFloat(text, 64); failed == nil && math.Abs(seconds) < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(seconds*float64(time.Second)), nil
	}
	if err != nil {
		return 0, errors.New("it must be a duration such as 5s or 1m, or a number of seconds")
	}
	return d, nil
}

type duration time.Duration

func durationVar(flags *pflag.FlagSet, d *time.Duration, name string, usual time.Duration, usage string) {
	*d = usual
	flags.Var((*duration)(d), name, usage)
}

// String implements pflag.Value.
func (d *duration) String() string { return time.Duration(*d).String() }

// Set implements pflag.Value.
func (d *duration) Set(text string) error {
	parsed, err := parseDuration(text)
	*d = duration(parsed)
	return err
}

// Type implements pflag.Value.
func (*duration) Type() string { return "duration" }

// plainFlagError says in plain words what is wrong with a flag. It knows the types of flags that are in use here.
func plainFlagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return plainValueError(value)
	case errors.As(err, &missing):
		return badUsage("%s needs a value", dashed(missing.GetSpecifiedName()))
	case errors.As(err, &unknown):
		return badUsage("unknown flag %s; %s --help lists the flags", dashed(unknown.GetSpecifiedName()), cmd.CommandPath())
	default:
		return &exitError{codeUsage, err}
	}
}

func plainValueError(wrong *pflag.InvalidValueError) error {
	flag := wrong.GetFlag()
	must := "it is not valid"
	switch flag.Value.Type() {
	case "int":
		must = "it must be a whole number"
	case "uint8":
		must = "it must be a whole number from 0 to 255"
	case "bool":
		must = "it must be true or false, behind a ="
	case "duration":
		must = wrong.Unwrap().Error() // of our own values
	}
	if flag.Name == "permits" {
		must += "; to fail at once if the lock is held, use -w 0"
	}
	name := "--" + flag.Name
	if flag.Shorthand != "" {
		name = "-" + flag.Shorthand + ", " + name
	}
	return badUsage("%s %q: %s", name, wrong.GetValue(), must)
}

// refuseEmptyFlags refuses a flag that was given without text: a variable in its place is not set, and without the flag the command
// would do something else. The value of a member may be empty.
func refuseEmptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && f.Name != memberValueFlag {
			err = badUsage("%s has no value: if it comes from a variable, that is not set", dashed(f.Name))
		}
	})
	return err
}

// dashed returns the name of a flag as it is written.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// arguments returns a check that a command has from least to most arguments; wanted says which.
func arguments(least, most int, wanted string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return badUsage("%s needs an argument: %s", cmd.Name(), wanted)
		case len(args) > most:
			return badUsage("%s: %s too many, it takes %s", cmd.Name(), words.Counted(len(args)-most, "argument"), wanted)
		default:
			return nil
		}
	}
}

// noSuchCommand is the error of a command line whose first word is no command.
func noSuchCommand(root *cobra.Command, word string) error {
	hint := "signalbox --help lists the commands"
	if near := root.SuggestionsFor(word); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q; %s", word, hint)
}

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
