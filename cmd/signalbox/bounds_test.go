// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	main "github.com/signalbox-go/signalbox/cmd/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// years is a duration near the longest of all.
const years = "2562047h"

// badNumbers are values of each flag that is a number or a duration, by command: what is too small, too large, and no number.
var badNumbers = map[string]string{
	"run --wait":               "-1s NaN 1e300",
	"run --conflict-exit-code": "-1 256",
	"run --capacity":           "-1 0 2147483648 9223372036854775808",
	"run --permits":            "-1 0 2147483648 9223372036854775808",
	"run --min":                "-1s NaN " + years,
	"run --lease":              "-1s 0 1ns " + years,
	"run --grace":              "-1s " + years,
	"move --wait":              "-1s NaN 1e300",
	"wait --wait":              "-1s NaN 1e300",
	"watch --every":            "-1s 0 1ns " + years,
	"serve --every":            "-1s 0 1ns " + years,
	"shards serve --count":     "-1 0 65537 9223372036854775808",
	"shards serve --weight":    "-1 0 1001 9223372036854775808",
	"shards serve --limit":     "-1 0 65537 9223372036854775808",
	"shards serve --lease":     "-1s 0 1ns " + years,
	"shards serve --grace":     "-1s " + years,
	"shards serve --drain":     "-1s " + years,
}

// A number or a duration of the command line that is too small or too large is a wrong usage, and nothing runs.
func TestEveryNumberOfTheCommandLineHasBounds(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	listed := make(map[string]bool)
	eachCommand(main.NewRoot(), func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !slices.Contains([]string{"string", "stringArray", "bool"}, f.Value.Type()) {
				listed[strings.TrimPrefix(cmd.CommandPath(), "signalbox ")+" --"+f.Name] = true
			}
		})
	})
	for name, values := range badNumbers {
		require.True(t, listed[name], "there is no %s", name)
		delete(listed, name)
		command, flag, _ := strings.Cut(name, " --")
		for value := range strings.FieldsSeq(values) {
			args := append(strings.Fields(command), "--"+flag+"="+value)
			switch {
			case flag == "permits":
				args = append(args, "--capacity=2")
			case command == "shards serve" && flag != "count":
				args = append(args, "--count=1")
			}
			if command == "run" || command == "wait" || command == "move" || command == "shards serve" {
				args = append(args, "name")
			}
			if command == "run" || command == "shards serve" {
				args = append(args, "--", "false")
			}
			p := start(t, url, args...) // a process of its own: run and shards serve wait for every child of theirs
			require.Equal(t, 2, p.code(), "%s: %s", args, p.output())
		}
	}
	require.Empty(t, listed, "no row says what is too small and too large")
}

// eachCommand calls do for a command and those below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, below := range cmd.Commands() {
		eachCommand(below, do)
	}
}
