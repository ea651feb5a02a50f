// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// tag and commit are set by the build of a release. Other builds know them from the module or the repository, or not at all.
//
//nolint:gochecknoglobals // the linker sets them
var tag, commit string

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and Go",
		Args:  arguments(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		},
	}
}

// version returns what the build knows of the version and of the commit, and which Go it was. A program that "go install" built
// from a tag knows no commit: the tag says it.
func version() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		info = new(debug.BuildInfo)
	}
	return versionOf(info, tag, commit)
}

func versionOf(info *debug.BuildInfo, tag, commit string) string {
	if tag == "" {
		tag = info.Main.Version
	}
	if tag == "" {
		tag = "(devel)"
	}
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && commit == "":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed"
		}
	}
	if commit == "" {
		commit = "unknown"
	}
	return fmt.Sprintf("signalbox %s (commit %s%s, %s, %s/%s)", tag, commit, changed, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
