// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/reentrant"
)

const waitHelp = `Wait until no process holds NAME, as whatever kind of lock, and until no round of a latch of that
name counts. It acquires nothing and does not queue: when it ends, another process may have
acquired the lock already. To run something while no other process has the lock, use run.

A latch reports by message that its round is over. A lock that is released while no process waits for it publishes no
message, and a place in its queue would make the command a holder, or a leader. So wait polls locks: at first 50
times a second, and ever more rarely, so that it ends late by a sixteenth of its wait, and by 2 s at most. It does
not see a shorter gap between two holders. A lock that its session keeps while it does not use it (WithKeepWarm) counts as held: wait
recalls it by a try.

Exit codes: 0 if no process holds NAME, 75 if one still does when --wait is over, otherwise those of run. However short
--wait is, the server is asked once, and has 5 s to reply.`

// The pause between two polls of wait is a share of the time that it has waited, within two limits.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = 2 * time.Second
	pauseShare = 16
)

// firstReply is how long the first poll waits for its reply at least: a limit shorter than a round trip asks once, as 0 does.
const firstReply = 5 * time.Second

// pauseAfter returns how long wait pauses if it has waited for so long.
func pauseAfter(waited time.Duration) time.Duration {
	return min(max(waited/pauseShare, firstPause), lastPause)
}

func newWait(s *serverFlags) *cobra.Command {
	var limit waitLimit
	cmd := &cobra.Command{
		Use:     "wait [flags] NAME",
		GroupID: groupLock,
		Short:   "Wait until no process holds a lock",
		Long:    waitHelp,
		Example: "  signalbox wait -w 10m nightly-report && ./mail-report.sh",
		Args:    arguments(1, 1, "NAME"),
	}
	cmd.Flags().VarP(&limit, "wait", "w", "how long to wait, such as 5s or 0.5; 0 asks once (default: for ever)")
	cmd.RunE = s.with(func(cmd *cobra.Command, session *signalbox.Session, args []string) error {
		return awaitFree(cmd.Context(), session, args[0], limit)
	})
	return cmd
}

// awaitFree polls until the name is free. It continues while the server is away.
func awaitFree(ctx context.Context, s *signalbox.Session, name string, limit waitLimit) error {
	bounded, first := ctx, ctx
	if limit.set && limit.d > 0 {
		var cancel, cancelFirst context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, limit.d)
		defer cancel()
		first, cancelFirst = context.WithTimeout(ctx, max(limit.d, firstReply))
		defer cancelFirst()
	}
	poll := time.NewTimer(0)
	defer poll.Stop()
	begun := time.Now()
	var last error // what the last poll that was not cut off found
	for {
		pollCtx := bounded
		if last == nil {
			pollCtx = first
		}
		busy, err := holdersOf(pollCtx, s, name)
		switch {
		case err == nil && len(busy) == 0:
			return nil
		case err == nil:
			last = fmt.Errorf("wait %q: %w %s", name, signalbox.ErrHeld, describe(busy[0]))
		case codeOf(sessionError{err}) != codeUnavailable:
			return err
		case last == nil || bounded.Err() == nil:
			last = err
		}
		if bounded.Err() != nil || limit.set && limit.d == 0 {
			return last
		}
		awaitRound(bounded, s, name, busy)
		recallIdle(bounded, s, name, busy)
		poll.Reset(pauseAfter(time.Since(begun)))
		select {
		case <-bounded.Done():
			return last
		case <-poll.C:
		}
	}
}

// awaitRound waits for the round of a latch, if it is the one use of the name. What the wait returned says less than the next
// poll.
func awaitRound(ctx context.Context, s *signalbox.Session, name string, busy []inspect.Entry) {
	if len(busy) != 1 || busy[0].Kind != inspect.Countdown {
		return
	}
	if round, err := countdown.New(s, name).Round(ctx); err == nil {
		_ = round.Wait(ctx)
	}
}

// recallIdle asks for a lock that a session may keep though it does not use it, so that it is kept no more for a while: a try
// does. A lock that it acquires is free, and is released at once.
func recallIdle(ctx context.Context, s *signalbox.Session, name string, busy []inspect.Entry) {
	for _, e := range busy {
		if len(e.Holders) > 0 && e.Holders[0].MayBeIdle {
			if lease, err := reentrant.New(s, name).TryLock(ctx); err == nil {
				_ = lease.Unlock() // the next poll says what is so then
			}
		}
	}
}

// holdersOf returns the uses of the name that a wait is for, or that can be broken.
func holdersOf(ctx context.Context, s *signalbox.Session, name string, kinds ...string) ([]inspect.Entry, error) {
	entries, err := inspect.Name(ctx, s, name)
	return slices.DeleteFunc(entries, func(e inspect.Entry) bool {
		return !e.IsHeld() || len(kinds) > 0 && !slices.Contains(kinds, e.Kind)
	}), err
}

// describe returns a line about the first holder of an entry, with what is strange in it quoted.
func describe(e inspect.Entry) string {
	if e.HolderCount == 0 && e.Summary() != "" {
		return "as " + e.Kind + ", " + e.Summary()
	}
	text := "as " + e.Kind
	if len(e.Holders) > 0 {
		text += fmt.Sprintf(" by %q", e.Holders[0].Label)
	}
	if e.HolderCount > 1 {
		text += fmt.Sprintf(" and %d more", e.HolderCount-1)
	}
	if !e.Since.IsZero() {
		text += " since " + e.Since.UTC().Format(time.RFC3339)
	}
	return text + fmt.Sprintf(", waiting: %d", e.WaiterCount)
}
