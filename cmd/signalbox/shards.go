// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
	"github.com/signalbox-go/signalbox/shards"
)

// newShards returns the command for groups of shards, with a subcommand for each thing to do.
func newShards(s *serverFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "shards",
		GroupID: groupSee,
		Short:   "See groups of shards, move shards, and run a program for each shard",
		Long: `See groups of shards, move shards, and run a program for each shard. A group divides shards among its members;
package shards says what is promised.`,
		Args: cobra.ArbitraryArgs, // RunE refuses them
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchCommand(cmd, args[0])
			}
			return badUsage("a command is missing; signalbox shards --help lists them")
		},
	}
	cmd.AddCommand(newShardsLs(s), newShardsWho(s), newShardsWatch(s), newShardsServe(s), newShardsSync(s), newShardsMove(s), newShardsEnd(s))
	return cmd
}

// groupOf returns a group of that name, as one that is observed: the server knows its shards.
func groupOf(session *signalbox.Session, name string) *shards.Group {
	return shards.New(session, name, shards.Names())
}

func newShardsLs(s *serverFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [flags] [PREFIX]",
		Short: "List the groups with members",
		Long: `List the groups of shards that have members and whose names begin with PREFIX, sorted. UNOWNED counts shards without an
owner, and SINCE says for how long the first of them has been without; DRAINING counts those that their owner was asked for.
The list costs what ls costs.

Exit codes: those of ls.`,
		Example: "  signalbox shards ls --json | jq -r 'select(.unowned > 0).name'",
		Args:    arguments(0, 1, "at most one PREFIX"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object a line: those of ls")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		groups, missing := s.list(cmd, session, args, func(e inspect.Entry) bool { return e.Kind == inspect.Shards })
		write := printGroups
		if asJSON {
			write = printJSON
		}
		return cmp.Or(write(cmd.OutOrStdout(), groups), missing)
	})
	return cmd
}

func printGroups(out io.Writer, groups []inspect.Entry) error {
	if len(groups) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0) // it returns errors from Flush
	_, _ = fmt.Fprintln(table, "GROUP\tSHARDS\tMEMBERS\tUNOWNED\tSINCE\tDRAINING\tSINCE")
	for _, e := range groups {
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%d\t%s\n", words.Shown(e.Name), e.Shards, e.HolderCount, e.Unowned, words.Moment(e.UnownedSince), e.Draining, words.Moment(e.DrainingSince))
	}
	return table.Flush()
}

type shardLine struct {
	Shard         string    `json:"shard"`
	State         string    `json:"state"`
	Label         string    `json:"label,omitempty"`
	Value         string    `json:"value,omitempty"`
	Session       string    `json:"session,omitempty"`
	Token         uint64    `json:"token,omitempty"`
	Since         time.Time `json:"since,omitzero"`
	DrainingSince time.Time `json:"draining_since,omitzero"`
	Losses        int       `json:"losses,omitempty"`
}

// gone is the state of a shard that has left the set: no view has it.
const gone shards.State = 0xff

func lineOf(o shards.ShardInfo) shardLine {
	state := "gone"
	if o.State != gone {
		state = o.State.String()
	}
	return shardLine{o.Name, state, o.Label, o.Value, o.Session, o.Token, o.Since, o.DrainingSince, o.Losses}
}

// text returns the columns of a line, with tabs between them.
func (l shardLine) text() string {
	columns := []string{words.Shown(l.Shard), l.State}
	if l.Session != "" {
		columns = append(columns, words.Shown(l.Label), "since "+words.Moment(l.Since), "token "+words.Token(l.Token))
	} else {
		columns = append(columns, "-", "since "+words.Moment(l.Since), "-")
	}
	if l.Value != "" {
		columns = append(columns, "value "+words.Shown(l.Value))
	}
	if !l.DrainingSince.IsZero() {
		columns = append(columns, "asked for "+words.Moment(l.DrainingSince))
	}
	if l.Losses > 0 {
		columns = append(columns, fmt.Sprintf("losses %d", l.Losses))
	}
	return strings.Join(columns, "\t")
}

// printShards prints shards as objects or as a table.
func printShards(out io.Writer, asJSON bool, all []shards.ShardInfo) error { //nolint:revive // what the flag says
	lines := make([]shardLine, 0, len(all))
	for _, o := range all {
		lines = append(lines, lineOf(o))
	}
	if asJSON {
		return printJSON(out, lines)
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0) // it returns errors from Flush
	for _, line := range lines {
		_, _ = fmt.Fprintln(table, line.text())
	}
	return table.Flush()
}

func newShardsWho(s *serverFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "who [flags] GROUP [SHARD]",
		Short: "Print who owns which shard",
		Long: `Print the shards of GROUP, or SHARD alone, with their owners. Losses counts owners in a row whose lease ended while they
had the shard. who GROUP, without shards before it, prints the members.

Exit codes: 0; 1 if the server has no such group or shard, or SHARD has no owner; otherwise those of run.`,
		Args: arguments(1, 2, "GROUP, and SHARD if only one is wanted"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each shard, one a line")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		ctx, group := cmd.Context(), groupOf(session, args[0])
		if len(args) > 1 {
			o, err := group.Owner(ctx, args[1])
			if err == nil {
				err = printShards(cmd.OutOrStdout(), asJSON, []shards.ShardInfo{o})
			}
			if err == nil && o.Session == "" {
				return &exitError{code: codeNotHeld}
			}
			return err
		}
		view, err := group.View(ctx)
		if err != nil {
			return err
		}
		return printShards(cmd.OutOrStdout(), asJSON, owners(view))
	})
	return cmd
}

// owners returns what a view says of each shard.
func owners(view *shards.View) (all []shards.ShardInfo) {
	for _, name := range view.Names() {
		o, _ := view.Owner(name)
		all = append(all, o)
	}
	return all
}

func newShardsWatch(s *serverFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "watch [flags] GROUP",
		Short: "Print the shards of a group, and then each change",
		Long: `Print the shards of GROUP with their owners, and then a line for each shard that changes, until it is interrupted. Changes
that follow each other within a second may be one line. A shard that leaves the set is printed as "gone". While the group is
not known, as when the server is away, it prints why and continues.

Exit codes: those of run.`,
		Args: arguments(1, 1, "GROUP"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each shard, one a line")
	cmd.RunE = s.watching(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		var known map[string]shards.ShardInfo
		var last error // the error of the last element, if it had one
		for view, err := range groupOf(session, args[0]).Watch(cmd.Context()) {
			if last = err; cmd.Context().Err() == nil {
				s.reportCall("shards watch", err)
			}
			if err != nil {
				continue
			}
			var changed []shards.ShardInfo
			changed, known = changes(known, view)
			if err := printShards(cmd.OutOrStdout(), asJSON, changed); err != nil {
				return err
			}
		}
		if last != nil && cmd.Context().Err() == nil {
			return &exitError{code: codeOf(sessionError{last})} // it was printed
		}
		return cmd.Context().Err()
	})
	return cmd
}

// changes returns the shards of a view that differ from what was known before, and what is known now.
func changes(before map[string]shards.ShardInfo, view *shards.View) (changed []shards.ShardInfo, now map[string]shards.ShardInfo) {
	now = make(map[string]shards.ShardInfo)
	for _, o := range owners(view) {
		now[o.Name] = o
		if known, was := before[o.Name]; !was || known != o {
			changed = append(changed, o)
		}
		delete(before, o.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		changed = append(changed, shards.ShardInfo{Name: name, State: gone})
	}
	return changed, now
}

func newShardsSync(s *serverFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sync GROUP NAME...",
		Short: "Set the names of a group's shards",
		Long: `Make the NAMEs those of GROUP: new ones become shards, and shards that are missing leave the set when their work has stopped.
Others do not move for it. Members that serve keep these names until all of them list another set by --shard.

Exit codes: 0 if the names are set; 1 if the server has no such group; otherwise those of run.`,
		Example: "  signalbox shards sync regions eu us asia",
		Args:    arguments(2, shards.MaxShards+1, "GROUP, and each NAME"),
	}
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		return groupOf(session, args[0]).Sync(cmd.Context(), args[1:])
	})
	return cmd
}

func newShardsMove(s *serverFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move GROUP SHARD SESSION",
		Short: "Move a shard to another member",
		Long: `Ask the owner of SHARD for it, so that the member of SESSION gets it. The shard moves when its work has stopped. Nothing
keeps it there: the group stays even. "signalbox who GROUP --json" has the sessions of the members.

Exit codes: 0 if the shard was asked for; 1 if there is no such group, shard or member; otherwise those of run.`,
		Args: arguments(3, 3, "GROUP, SHARD and SESSION"),
	}
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		return groupOf(session, args[0]).Move(cmd.Context(), args[1], args[2])
	})
	return cmd
}

func newShardsEnd(s *serverFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "end GROUP SESSION",
		Short: "End a member by force",
		Long: `End the member of SESSION, for one that hangs: its lease is not renewed any more. If its process still works, it is
notified, its contexts end, and each shard goes to another member when its function has returned. All others go when the
lease has ended, beside functions that still run; tokens protect what both write. It joins again. "signalbox break GROUP" does the same to all members.

Exit codes: 0 if it was ended; 1 if there is no such group or member; otherwise those of run.`,
		Args: arguments(2, 2, "GROUP and SESSION"),
	}
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		entries, err := inspect.Name(cmd.Context(), session, args[0])
		if err != nil {
			return err
		}
		for _, e := range entries {
			for _, h := range e.Holders {
				if e.Kind == inspect.Shards && h.Session == args[1] {
					e.Name, e.Holders = args[0], []inspect.Holder{h} // the name of an entry may be a digest
					return inspect.BreakSeen(cmd.Context(), session, e)
				}
			}
		}
		return fmt.Errorf("end %q: %w: session %q has no member in the group", args[0], signalbox.ErrNotHeld, args[1])
	})
	return cmd
}
