// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	var l load
	flag.IntVar(&l.masters, "masters", 1, "`servers` that hold locks; more than one is a cluster")
	flag.IntVar(&l.processes, "processes", 1, "`processes`, with a session each")
	flag.IntVar(&l.held, "held", 0, "`locks` that are held at any time, and renewed")
	flag.DurationVar(&l.lease, "lease", 30*time.Second, "their lease")
	flag.IntVar(&l.name, "name", 20, "`bytes` of a name with its prefix")
	flag.IntVar(&l.waiters, "waiters", 0, "`goroutines` that wait")
	flag.IntVar(&l.waited, "waited", 0, "`names` that they wait for")
	flag.Float64Var(&l.pairs, "pairs", 0, "free locks that are locked and unlocked, a `second`")
	flag.Float64Var(&l.handOffs, "hand-offs", 0, "locks that go from one process to another, a `second`")
	flag.Float64Var(&l.permits, "permits", 0, "permits that are acquired and released, a `second`")
	flag.IntVar(&l.shards, "shards", 0, "`shards` of all groups")
	flag.IntVar(&l.members, "members", 0, "their `members`")
	flag.DurationVar(&l.outage, "outage", 0, "how long the servers stop")
	flag.Parse()
	if err := l.print(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// print prints a table of Markdown, and what saturates first.
func (l load) print(out io.Writer) error {
	needs := l.needs()
	var text strings.Builder
	text.WriteString("| resource | needed | limit | share | what moves it |\n|---|---:|---:|---:|---|\n")
	for _, n := range needs {
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", n.name, n.format(n.value), n.format(n.limit), percent(n.share()), n.whatMovesIt)
	}
	first := needs[0]
	fmt.Fprintf(&text, "\nFirst: %s, at %.2g times this load.\n", first.name, 1/first.share())
	_, err := io.WriteString(out, text.String())
	return err
}
