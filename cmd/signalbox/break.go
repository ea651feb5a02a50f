// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

const breakHelp = `End the holds of NAME, of whatever kind of lock, so that the next waiter gets it. A round of a latch
is reset. For holders that hang: one that still works is notified, and may work beside the next
holder until then. Its fencing token is smaller than the next holder's.

Break shows what it would break, and asks before it does. It ends the holds that it has shown. With --yes
it ends those that it finds.

Exit codes: 0 if it broke something, 1 if no process holds NAME or the reply was no, 75 if another holder
had NAME when the reply came, otherwise those of run.`

type breakFlags struct {
	server *serverFlags

	yes   bool
	kinds []string
}

func newBreak(s *serverFlags) *cobra.Command {
	f := &breakFlags{server: s}
	cmd := &cobra.Command{
		Use:     "break [flags] NAME",
		GroupID: groupLock,
		Short:   "End the holds of a lock",
		Long:    breakHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if !f.yes && !term.IsTerminal(int(os.Stdin.Fd())) {
				return badUsage("break asks on a terminal first; without a terminal it needs --yes")
			}
			return arguments(1, 1, "NAME")(cmd, args)
		},
	}
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	cmd.Flags().StringArrayVar(&f.kinds, "kind", nil, "break this `kind` only, if NAME is held as several; can be repeated")
	cmd.RunE = s.with(f.run)
	return cmd
}

func (f *breakFlags) run(cmd *cobra.Command, session *signalbox.Session, args []string) error {
	ctx, name := cmd.Context(), args[0]
	if f.yes {
		return f.broken(name, inspect.Break(ctx, session, name, f.kinds...))
	}
	busy, err := holdersOf(ctx, session, name, f.kinds...)
	if err != nil {
		return err
	}
	if len(busy) == 0 {
		return f.notHeld(name)
	}
	for _, e := range busy {
		cmd.PrintErrf("%q is held %s\n", name, describe(e))
	}
	if len(busy) > 1 && len(f.kinds) == 0 {
		return badUsage("break %q: it is held as several kinds: name one with --kind", name)
	}
	agreed, err := confirm(cmd, "Break it? [y/N] ")
	if err != nil {
		return err
	}
	if !agreed {
		return &exitError{codeNotHeld, errors.New("nothing was broken")}
	}
	for _, e := range busy {
		e.Name = name // that of the entry may be a digest
		err = cmp.Or(err, f.broken(name, inspect.BreakSeen(ctx, session, e)))
	}
	return err
}

func (f *breakFlags) broken(name string, err error) error {
	if errors.Is(err, signalbox.ErrNotHeld) {
		return f.notHeld(name)
	}
	return err
}

func (f *breakFlags) notHeld(name string) error {
	return &exitError{codeNotHeld, fmt.Errorf("break %q: no process holds it%s", name, f.server.under())}
}

// confirm reports whether the reply to the question is yes. The goroutine that reads ends with the process,
// if a signal comes before the reply.
func confirm(cmd *cobra.Command, question string) (bool, error) {
	cmd.PrintErr(question)
	reply := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n') // an error is no yes
		reply <- line
	}()
	select {
	case <-cmd.Context().Done():
		return false, cmd.Context().Err()
	case line := <-reply:
		word := strings.ToLower(strings.TrimSpace(line))
		return word == "y" || word == "yes", nil
	}
}

const moveHelp = `Ask the leader of ELECTION to hand over, and wait until another candidate leads. Nothing is taken away: the leader stops its
work, resigns, and campaigns again, if it uses Run. The request is repeated each second until the leader has changed.

Without SESSION the first candidate in the queue is next. With it that is the candidate of SESSION, which moves to the head of the queue;
"signalbox who ELECTION --json" has the sessions of the candidates.

Exit codes: 0 if another candidate leads; 1 if no process leads, or if there is no such candidate; 75 if the leader has not
changed when --wait is over, otherwise those of run.`

func newMove(s *serverFlags) *cobra.Command {
	var limit waitLimit
	cmd := &cobra.Command{
		Use:     "move [flags] ELECTION [SESSION]",
		GroupID: groupLock,
		Short:   "Ask a leader to hand over",
		Long:    moveHelp,
		Example: "  signalbox move -w 1m scheduler",
		Args:    arguments(1, 2, "ELECTION and SESSION"),
	}
	cmd.Flags().VarP(&limit, "wait", "w", "how long to wait, such as 5s or 0.5 (default: for ever)")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		ctx := cmd.Context()
		if limit.set {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit.d)
			defer cancel()
		}
		next := ""
		if len(args) > 1 {
			next = args[1]
		}
		leader, err := election.New(session, args[0]).Handover(ctx, next)
		switch {
		case err != nil && ctx.Err() != nil && cmd.Context().Err() == nil:
			return fmt.Errorf("move %q: %w", args[0], signalbox.ErrHeld)
		case err != nil:
			return err
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), leader.Session, words.Shown(leader.Label))
		return err
	})
	return cmd
}
