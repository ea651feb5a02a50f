// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"

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
