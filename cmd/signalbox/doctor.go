// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/words"
)

const doctorHelp = `Check whether the server suits locks: its version, topology, memory and eviction, the rights of the user, whether it accepts
writes now, its clock, how long a request takes, whether messages arrive, and how it keeps data. Each finding is ok, a warning
or a problem, with what to do. In a cluster every node that has slots is checked.

It tries what a session needs, on keys that begin with the prefix. Almost all of these requests change nothing; the
keys of the others are deleted, and would end after a second. Each right that is missing leaves an entry in the server's ACL LOG.

With --json each line is an object; its fields stay as they are.

Exit codes: 0 if all is well, 1 with warnings, 78 with problems, such as a full memory, too few replicas or a long script, for
which the server grants no lock now; otherwise those of run: 69 if the server cannot be reached, 71 if it refuses the password.`

// doctorTimeout is how long all checks together may take.
const doctorTimeout = time.Minute

func newDoctor(s *serverFlags) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor [flags]",
		GroupID: groupSee,
		Short:   "Check whether the server suits locks",
		Long:    doctorHelp,
		Args:    arguments(0, 0, "no arguments"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print an object for each finding, one a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings, err := s.diagnose(cmd.Context())
		if ended := cmd.Context().Err(); ended != nil {
			err = ended
		}
		if err != nil {
			return sessionError{err}
		}
		write := printFindings
		if asJSON {
			write = printJSON[finding]
		}
		return cmp.Or(write(cmd.OutOrStdout(), findings), exitCodeOf(findings))
	}
	return cmd
}

// diagnose returns what there is to say about the server, or why it cannot be asked.
func (s *serverFlags) diagnose(ctx context.Context) ([]finding, error) {
	if flag, _ := s.layout.chosen(); flag != "" {
		return nil, badUsage("doctor checks what the library's own layout needs: leave %s out", flag)
	}
	defer s.notices.flush()
	options, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	session, refused := s.dial(ctx)
	switch {
	case refused == nil:
		defer func() { _ = session.Close(context.WithoutCancel(ctx)) }() // nothing was acquired
	case errors.Is(refused, signalbox.ErrBadOption), errors.Is(refused, signalbox.ErrBadName):
		return nil, refused
	}
	client, err := connect(ctx, options)
	if err != nil {
		return nil, cmp.Or(refused, err)
	}
	defer client.Close()
	return newExamination(client, options, cmp.Or(s.prefix, defaultPrefix)).run(ctx, refused), nil
}

// connect returns a client of the server, also if the server lacks what a session needs. The attempts of one that comes too late end
// with the command.
func connect(ctx context.Context, options rueidis.ClientOption) (rueidis.Client, error) {
	signalbox.Tune(&options)
	options.DisableRetry = true
	made, failed := make(chan rueidis.Client, 1), make(chan error, 1)
	go func() {
		client, err := rueidis.NewClient(options)
		refusal := new(rueidis.RedisError)
		if errors.As(err, &refusal) && len(options.InitAddress) == 1 && options.Sentinel.MasterSet == "" {
			options.ForceSingleClient = true // a proxy that does not know the commands of a cluster
			client, err = rueidis.NewClient(options)
		}
		if err != nil {
			failed <- err
		} else {
			made <- client
		}
	}()
	select {
	case client := <-made:
		return client, nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The severities of findings.
const (
	statusOK      = "ok"
	statusWarning = "warning"
	statusProblem = "problem"
)

// finding is what one check found. The fields of its JSON stay as they are.
type finding struct {
	Check  string   `json:"check"`
	Status string   `json:"status"`
	Found  string   `json:"found"`
	Advice string   `json:"advice,omitempty"`
	Nodes  []string `json:"nodes,omitempty"` // the nodes of a cluster to which it applies
}

func exitCodeOf(findings []finding) error {
	worst := 0
	for _, f := range findings {
		switch f.Status {
		case statusProblem:
			worst = codeProblem
		case statusWarning:
			worst = max(worst, codeWarning)
		}
	}
	if worst == 0 {
		return nil
	}
	return &exitError{code: worst}
}

func printFindings(out io.Writer, findings []finding) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0) // it returns errors from Flush
	for _, f := range findings {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.Status, f.Check, words.Printable(f.Found))
		if len(f.Nodes) > 0 {
			_, _ = fmt.Fprintf(table, "\t\tnodes: %s\n", words.Printable(joined(f.Nodes)))
		}
		label := "do"
		if f.Status == statusOK {
			label = "note" // nothing has to be done
		}
		if f.Advice != "" {
			_, _ = fmt.Fprintf(table, "\t\t%s: %s\n", label, words.Printable(f.Advice))
		}
	}
	return table.Flush()
}
