// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
	"github.com/signalbox-go/signalbox/redisson"
)

const lsHelp = `List the names in use that begin with PREFIX, sorted, of every kind of lock. Names and labels with control
characters, quotes or bytes that are not UTF-8 are printed in quotes, as Go writes them. All times are those of the
server's clock.

With --json each line is an object; its fields stay as they are. If a name is not UTF-8, the bytes that are not are
replaced in "name"; "key" has them, encoded.

A list takes at most a tenth of the server's time: about 10 s for each million keys that the server has. On a terminal it
prints how far it is. --full-speed takes all the time that it can get, and slows other clients of the server. If it is
interrupted it prints what it has found.

In a cluster a node that fails does not end the list: its error is the last line.

Exit codes: 0, also if no name is in use; 69 if the list is not complete; otherwise those of run.`

func newLs(s *serverFlags) *cobra.Command {
	var asJSON, fullSpeed bool
	cmd := &cobra.Command{
		Use:     "ls [flags] [PREFIX]",
		GroupID: groupSee,
		Short:   "List the names in use",
		Long:    lsHelp,
		Example: "  signalbox ls order/\n  signalbox ls --json | jq -r 'select(.waiter_count > 10).name'",
		Args:    arguments(0, 1, "at most one PREFIX"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object a line")
	cmd.Flags().BoolVar(&fullSpeed, "full-speed", false, "do not spare the server")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		var options []inspect.NamesOption
		if fullSpeed {
			options = append(options, inspect.FullSpeed())
		}
		entries, missing := s.list(cmd, session, args, func(inspect.Entry) bool { return true }, options...)
		write := printTable
		if asJSON {
			write = printJSON[inspect.Entry]
		}
		return cmp.Or(write(cmd.OutOrStdout(), entries), missing)
	})
	return cmd
}

// list returns the names in use that are wanted, sorted, and the first error if some are missing. On a terminal it prints how far
// it is, and that the list is empty.
func (s *serverFlags) list(
	cmd *cobra.Command, session *signalbox.Session, args []string, wanted func(inspect.Entry) bool, options ...inspect.NamesOption,
) (entries []inspect.Entry, missing error) {
	p := newProgress(cmd.ErrOrStderr())
	for entry, err := range inspect.Names(cmd.Context(), session, strings.Join(args, ""), append(options, inspect.Progress(p.report))...) {
		switch {
		case err != nil:
			missing = cmp.Or(missing, err)
		case wanted(entry):
			entries = append(entries, entry)
		}
	}
	p.end()
	if len(entries) == 0 && missing == nil {
		p.say("none is in use" + s.under())
	}
	slices.SortFunc(entries, func(a, b inspect.Entry) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return entries, missing
}

// printJSON prints objects, each on a line of its own.
func printJSON[T any](out io.Writer, objects []T) error {
	for _, object := range objects {
		line, err := words.JSONLine(object)
		if err != nil {
			return err
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func printTable(out io.Writer, entries []inspect.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0) // it returns errors from Flush
	_, _ = fmt.Fprintln(table, "NAME\tKIND\tHELD\tSINCE\tUNTIL\tWAITING\tTOKEN")
	for _, e := range entries {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", words.Shown(e.Name), e.Kind, words.Held(e), words.Moment(e.Since), words.Moment(e.Until), e.WaiterCount, words.Token(e.Token))
	}
	return table.Flush()
}

// layoutFlags are the flags that choose a layout of other clients.
type layoutFlags struct{ redisson bool }

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

const whoHelp = `Print the holders of NAME, as whatever kind of lock, and the sessions that wait for it, in the order of the queue. A
waiter that is "silent" was not heard of lately, and is passed over. --json prints the same objects as ls, with up
to 1,000 holders and waiters.

Exit codes: 0 if a process holds NAME, 1 if none does, otherwise those of run.`

func newWho(s *serverFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "who [flags] NAME",
		GroupID: groupSee,
		Short:   "Print the holders of a name and its waiters",
		Long:    whoHelp,
		Args:    arguments(1, 1, "NAME"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each kind, one a line")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		entries, err := inspect.Name(cmd.Context(), session, args[0])
		if err != nil {
			return err
		}
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), entries)
		} else {
			err = printWho(cmd.OutOrStdout(), args[0], s.under(), entries)
		}
		if err == nil && !slices.ContainsFunc(entries, inspect.Entry.IsHeld) {
			return &exitError{code: codeNotHeld}
		}
		return err
	})
	return cmd
}

// printWho prints entries. under says where the name was looked for.
func printWho(out io.Writer, name, under string, entries []inspect.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintf(out, "%s: not in use%s\n", words.Shown(name), under)
		return err
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0) // it returns errors from Flush
	for _, e := range entries {
		_, _ = fmt.Fprintf(table, "%s\n", headline(e))
		for _, h := range e.Holders {
			columns := []string{"  holds", words.Shown(h.Label), "since " + words.Moment(h.Since), "until " + words.Moment(h.Until), "token " + words.Token(h.Token)}
			if e.Shards > 0 {
				columns = memberWords(h)
			}
			if h.MayBeIdle {
				columns = append(columns, "may be idle")
			}
			_, _ = fmt.Fprintln(table, strings.Join(append(columns, traits(h.Shared, h.Permits)...), "\t"))
		}
		if more := e.HolderCount - len(e.Holders); more > 0 {
			_, _ = fmt.Fprintf(table, "  and %d more\n", more)
		}
		for _, w := range e.Waiters {
			columns := []string{"  waits", words.Shown(w.Label), "since " + words.Moment(w.Since)}
			if !w.Alive {
				columns = append(columns, "silent")
			}
			_, _ = fmt.Fprintln(table, strings.Join(append(columns, traits(w.Shared, w.Permits)...), "\t"))
		}
		if more := e.WaiterCount - len(e.Waiters); more > 0 {
			_, _ = fmt.Fprintf(table, "  and %d more\n", more)
		}
	}
	return table.Flush()
}

// headline says what a name is used for.
func headline(e inspect.Entry) string {
	text := words.Shown(e.Name) + ": " + e.Kind
	summary := e.Summary()
	switch {
	case e.Kind == inspect.Foreign:
		text += ", the key is another program's: " + words.Shown(e.Key)
	case e.Kind == inspect.Number:
		text += ", a latch, a semaphore or another program's counter"
	case e.Shards > 0:
		text = words.Shown(e.Name) + ": " + groupLine(e)
	case e.Capacity > 0:
		text += fmt.Sprintf(", %d of %d permits are held", e.Held, e.Capacity)
	case e.Value != "":
		text += ", value " + words.Shown(e.Value)
	case e.IsHeld() && summary != "":
		text += fmt.Sprintf(", %s, since %s", summary, words.Moment(e.Since))
	case summary != "":
		text += ", " + summary
	}
	return text
}

func groupLine(e inspect.Entry) string {
	text := words.Counted(e.Shards, "shard") + ", " + words.Counted(e.HolderCount, "member")
	if e.Unowned > 0 {
		text += fmt.Sprintf(", %d unowned since %s", e.Unowned, words.Moment(e.UnownedSince))
	}
	if e.Draining > 0 {
		text += fmt.Sprintf(", %d draining since %s", e.Draining, words.Moment(e.DrainingSince))
	}
	return text
}

// memberWords describes a member of a group of shards.
func memberWords(h inspect.Holder) []string {
	columns := []string{"  member", words.Shown(h.Label), "since " + words.Moment(h.Since), "until " + words.Moment(h.Until), fmt.Sprintf("owns %d", h.Shards), "session " + h.Session}
	if h.Value != "" {
		columns = append(columns, "value "+words.Shown(h.Value))
	}
	if h.Leaving {
		columns = append(columns, "leaves")
	}
	return columns
}

// traits returns what is special about a hold or a ticket.
func traits(shared bool, permits int) (columns []string) { //nolint:revive // a fact, not a switch
	if shared {
		columns = append(columns, "reads")
	}
	if permits > 0 {
		columns = append(columns, fmt.Sprintf("permits %d", permits))
	}
	return columns
}
