// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

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

// groupLine describes a group of shards.
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
