// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	root := newRoot()
	root.SetArgs(os.Args[1:])
	os.Exit(execute(ctx, root, os.Stderr))
}

// execute runs the command line, prints its error on one line, and returns the exit code.
func execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	err := root.ExecuteContext(ctx)
	code, line := outcome(ctx, err)
	if line != "" {
		_, _ = fmt.Fprintln(stderr, line) // if stderr is closed, the exit code is all that is left
	}
	return code
}

// newRoot returns the command with all its subcommands. A file of this package has a subcommand each.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "signalbox",
		Short: "Hold a lock on Redis or Valkey while a program runs, see holders and waiters, and break locks",
		Long: `Hold a lock on Redis or Valkey while a program runs, see holders and waiters, and break locks.

The server is named by --redis or by SIGNALBOX_REDIS, such as redis://db.example.com:6379.`,
		Version:       version(),
		SilenceUsage:  true, // an error is one line
		SilenceErrors: true, // execute prints it
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommand(cmd, args[0])
			}
			return badUsage("a command is missing; signalbox --help lists them")
		},
		Args:                       cobra.ArbitraryArgs, // RunE refuses them
		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(plainFlagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return refuseEmptyFlags(cmd.Flags()) }
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddGroup(&cobra.Group{ID: groupLock, Title: "Locks:"}, &cobra.Group{ID: groupSee, Title: "Seeing:"})
	server := addServerFlags(root.PersistentFlags())
	root.AddCommand(newRun(server), newWait(server), newBreak(server), newMove(server), newLs(server), newWho(server), newWatch(server), newServe(server), newShards(server), newDoctor(server), newVersion())
	return root
}

// The groups of the help.
const (
	groupLock = "lock"
	groupSee  = "see"
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
