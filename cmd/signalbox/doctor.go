// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/words"
	"github.com/signalbox-go/signalbox/scripts"
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

// defaultPrefix is the prefix of keys if none is given.
const defaultPrefix = "sb:"

// examination is one run of doctor.
type examination struct {
	client    rueidis.Client
	prefix    string
	user      string // the ACL user of the connections
	sentinels bool   // reports whether sentinels named the server
	nodes     []*node
	findings  []finding
}

// node is a server that is examined: the only one, or one of a cluster that has slots.
type node struct {
	client  rueidis.Client
	addr    string
	key     string // a key in a slot of the node, which nothing uses
	sharded bool   // reports whether messages go by sharded channels
	info    serverInfo
	infoErr error // why info is nil
}

func newExamination(client rueidis.Client, options rueidis.ClientOption, prefix string) *examination {
	return &examination{client: client, prefix: prefix, user: cmp.Or(options.Username, "default"), sentinels: options.Sentinel.MasterSet != ""}
}

// run returns the findings. refused is why no session could be made, or nil.
func (e *examination) run(ctx context.Context, refused error) []finding {
	e.findNodes(ctx)
	e.checkSession(refused)
	for _, n := range e.nodes {
		n.info, n.infoErr = readInfo(ctx, n.client)
		e.add(n, n.checkServer(ctx))
	}
	e.checkTopology(ctx)
	for _, n := range e.nodes {
		e.add(n, n.checkMemory())
		e.add(n, e.checkRights(ctx, n)...)
		e.add(n, e.checkMessages(ctx, n))
		e.add(n, n.checkTimes(ctx)...)
		e.add(n, n.checkPersistence()...)
		e.add(n, n.checkConnections()...)
	}
	return e.findings
}

// add records findings about a node. Findings that are equal but for their nodes become one.
func (e *examination) add(n *node, found ...finding) {
	for _, f := range found {
		if !e.isCluster() {
			e.findings = append(e.findings, f)
			continue
		}
		same := func(other finding) bool {
			return other.Check == f.Check && other.Status == f.Status && other.Found == f.Found && other.Advice == f.Advice
		}
		i := slices.IndexFunc(e.findings, same)
		if i < 0 {
			i = len(e.findings)
			e.findings = append(e.findings, f)
		}
		e.findings[i].Nodes = append(e.findings[i].Nodes, n.addr)
	}
}

func (e *examination) isCluster() bool { return e.client.Mode() == rueidis.ClientModeCluster }

// findNodes finds the servers to examine.
func (e *examination) findNodes(ctx context.Context) {
	all := e.client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(all)) {
		n := &node{client: all[addr], addr: addr, sharded: e.isCluster()}
		if n.key = e.keyAt(ctx, n); n.key != "" {
			e.nodes = append(e.nodes, n)
		}
	}
}

// keyAt returns a key in a slot of the node, or "" if it has no slot: a replica, or a new node.
func (e *examination) keyAt(ctx context.Context, n *node) string {
	const atOnce, rounds = 64, 16 // a node with a hundredth of the slots is missed once in 30,000 times
	base := e.prefix + "{doctor-" + rand.Text()
	if !e.isCluster() {
		return base + "}:probe"
	}
	for round := range rounds {
		var keys []string
		var calls rueidis.Commands
		for i := range atOnce {
			keys = append(keys, base+strconv.Itoa(round*atOnce+i)+"}:probe")
			calls = append(calls, n.client.B().Exists().Key(keys[i]).Build())
		}
		for i, result := range n.client.DoMulti(ctx, calls...) {
			if !strings.HasPrefix(wordsOf(result.Error()), "MOVED ") {
				return keys[i]
			}
		}
	}
	return ""
}

// wordsOf returns the text of a refusal, or "" for any other error, also none.
func wordsOf(err error) string {
	if refusal := new(rueidis.RedisError); errors.As(err, &refusal) {
		return refusal.Error()
	}
	return ""
}

func joined(words []string) string { return strings.Join(words, ", ") }

func (e *examination) checkSession(refused error) {
	switch {
	case refused == nil:
		e.findings = append(e.findings, finding{Check: "session", Status: statusOK, Found: "programs can connect"})
	default:
		advice := "see the findings below"
		if errors.Is(refused, signalbox.ErrNoReply) {
			advice = adviceFor(refused, "")
		}
		if errors.Is(refused, signalbox.ErrOldServer) {
			advice = "use a newer server"
		}
		text := strings.TrimPrefix(refused.Error(), "signalbox: ")
		e.findings = append(e.findings, finding{Check: "session", Status: statusProblem, Found: text, Advice: advice})
	}
}

// checkTopology says how many servers there are, as far as clients can know.
func (e *examination) checkTopology(ctx context.Context) {
	f := finding{Check: "topology", Status: statusOK}
	switch {
	case e.isCluster() && len(e.nodes) == 0:
		f.Status, f.Found, f.Advice = statusProblem, "a cluster in which no node serves slots", "see CLUSTER INFO on its nodes"
	case e.isCluster():
		f.Found = "a cluster, nodes with slots: " + strconv.Itoa(len(e.nodes))
	case e.sentinels:
		f.Found = e.nodes[0].addr + ", the primary that the sentinels name"
	default:
		shown, err := e.probeSlots(ctx)
		switch {
		case err != nil:
			f.Status, f.Found = statusWarning, e.nodes[0].addr+", one server or one endpoint in front of several: the probe failed: "+err.Error()
			f.Advice = adviceFor(err, "grant what is missing, and run this again")
		case shown:
			f.Found = e.nodes[0].addr + ", one server"
		default:
			f.Found = e.nodes[0].addr + ", one endpoint in front of several shards"
			f.Advice = "do not use WithReplicas; docs/guarantees.md has what else changes. What follows is of the shard that replied"
		}
	}
	e.findings = append(e.findings, f)
}

// probeSlots reports whether one script may have keys of several slots, as sessions find it out. It returns an error if that is not
// known.
func (e *examination) probeSlots(ctx context.Context) (shown bool, unknown error) {
	const keys = 32 // two equal shards are taken for one server once in 2^31 times
	base := e.prefix + "shards:" + rand.Text() + ":"
	probe := e.client.B().Eval().Script(scripts.Load("session/probe-slots", 1).Source).Numkeys(keys).Key()
	var calls, undo rueidis.Commands
	for i := range keys {
		key := base + strconv.Itoa(i)
		calls = append(calls, e.client.B().Set().Key(key).Value("1").PxMilliseconds(1000).Build())
		undo = append(undo, e.client.B().Del().Key(key).Build())
		probe = probe.Key(key)
	}
	results := e.client.DoMulti(ctx, append(calls, probe.Build())...)
	counts, err := results[keys].AsIntSlice()
	if err == nil && len(counts) == 1 && counts[0] == keys {
		return true, nil
	}
	e.client.DoMulti(ctx, undo...) // or they end by themselves
	for _, result := range results[:keys] {
		if err := result.Error(); err != nil {
			return false, err
		}
	}
	if words := wordsOf(err); parseRefusal(words) != notRefused || troubleOf(words) != nil || errors.Is(err, context.DeadlineExceeded) {
		return false, err
	}
	return false, nil
}
