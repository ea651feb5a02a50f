// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/words"
)

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
