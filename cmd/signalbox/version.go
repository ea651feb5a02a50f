// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version returns what the build knows of the version, of the commit if it is no released one, and of Go.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return "signalbox of an unknown version"
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	text := "signalbox " + info.Main.Version
	if commit := settings["vcs.revision"]; commit != "" && info.Main.Version == "(devel)" {
		text += " " + commit
	}
	return fmt.Sprintf("%s %s %s/%s", text, info.GoVersion, settings["GOOS"], settings["GOARCH"])
}
