// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func main() {
	redistest.RegisterChild("holder", holdUntilKilled)
	if redistest.RunChild() {
		return
	}
	quick := flag.Bool("short", false, "run everything in its short form, for CI")
	only := flag.String("only", "", "measure only stores whose name or form has this `text`")
	apart := flag.Bool("apart", false, "keep servers on the first core and clients on the others")
	into := flag.String("into", "", "put the table below the heading \"## Run\" of a `file`, too")
	flag.Parse()
	c := full()
	if *quick {
		c = short()
	}
	c.apart = *apart
	var table strings.Builder
	err := run(&table, os.Stderr, c, *only)
	fmt.Print(table.String())
	if err == nil && *into != "" {
		err = replace(*into, table.String())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/stores:", err)
		os.Exit(1)
	}
}

// full takes four minutes with all stores.
func full() scale {
	return scale{2, 100 * time.Millisecond, 400 * time.Millisecond, 30 * time.Second, 5, 4, 3 * time.Second, false}
}

func short() scale {
	return scale{1, 20 * time.Millisecond, 80 * time.Millisecond, 30 * time.Second, 2, 1, 2 * time.Second, false}
}

func goroutines() []int { return []int{1, 64} }
func waiters() []int    { return []int{1, 16, 100} }

// run starts all stores, measures them in turns, and prints their table.
func run(out *strings.Builder, progress io.Writer, c scale, only string) (err error) {
	if c.apart {
		if err := moveTo("0"); err != nil { // servers that are started now stay there
			return err
		}
	}
	var rows []*row
	var leftOut []string
	defer func() {
		closed := make(map[*server]bool)
		for _, r := range rows {
			if !closed[r.server] {
				r.server.close()
			}
			closed[r.server] = true
		}
	}()
	for _, s := range stores() {
		if !strings.Contains(s.name, only) && !strings.Contains(s.form, only) {
			continue
		}
		at, err := s.start()
		if err != nil {
			leftOut = append(leftOut, fmt.Sprintf("- left out: %s, %s: %s", s.name, s.form, oneLine(err)))
			continue
		}
		for _, c := range s.clients {
			rows = append(rows, &row{store: s, client: c, server: at, pairs: make(map[int][]float64), handOffs: make(map[int][]time.Duration)})
		}
	}
	if len(rows) == 0 {
		return errors.New("no store can be started:\n" + strings.Join(leftOut, "\n"))
	}
	fmt.Fprintf(out, "- %s, %s/%s, %d cores\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if c.apart {
		last := runtime.NumCPU() - 1
		if err := moveTo(fmt.Sprintf("1-%d", last)); err != nil {
			return err
		}
		runtime.GOMAXPROCS(last)
		fmt.Fprintln(out, "- servers on the first core, clients on the others")
	}
	if err := measure(rows, c, progress); err != nil {
		return err
	}
	for _, line := range leftOut {
		fmt.Fprintln(out, line)
	}
	print(out, rows, c)
	return nil
}

// moveTo moves all threads of this process to some cores. What it starts from then on stays on these.
func moveTo(cores string) error {
	out, err := exec.Command("taskset", "-a", "-p", "-c", cores, strconv.Itoa(os.Getpid())).CombinedOutput() //nolint:noctx // it ends by itself
	if err != nil {
		return fmt.Errorf("taskset: %w: %s", err, out)
	}
	return nil
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// measure lets the rows take turns, so that a slow minute of the machine slows all of them. Each round begins with another one.
func measure(rows []*row, c scale, progress io.Writer) error {
	inTurns := func(what string, one func(*row) error) error {
		began := time.Now()
		for round := range c.rounds {
			for i := range rows {
				r := rows[(i+round)%len(rows)]
				if err := wrap(r, one(r)); err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
			}
		}
		_, err := fmt.Fprintf(progress, "%s: %v\n", what, time.Since(began).Round(time.Millisecond))
		return err
	}
	for _, n := range goroutines() {
		if err := inTurns(fmt.Sprintf("pairs, %d at once", n), func(r *row) error { return r.pair(c, n) }); err != nil {
			return err
		}
	}
	for _, n := range waiters() {
		if err := inTurns(fmt.Sprintf("hand-offs, %d wait", n), func(r *row) error { return r.handOff(c, n) }); err != nil {
			return err
		}
	}
	return crashAll(rows, c)
}

// print prints the table as Markdown.
func print(out *strings.Builder, rows []*row, c scale) {
	fmt.Fprintf(out, "- a lock of a holder that dies: lease %v\n\n", c.crashLease)
	fmt.Fprint(out, "| store | written to | client | pairs/s, 1 | 64 | hand-off p50, max: 1 waits | 16 | 100 | holder killed p50, max ")
	fmt.Fprint(out, "| if the holder dies | the server | a failover |\n|---|---|---|---:|---:|---:|---:|---:|---:|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(out, "| %s | %s | %s |", title(r), r.store.form, r.client.name)
		for _, n := range goroutines() {
			fmt.Fprintf(out, " %.0f |", quantile(r.pairs[n], 0.5))
		}
		for _, n := range waiters() {
			fmt.Fprintf(out, " %s |", spans(r.handOffs[n]))
		}
		s := r.store.survives
		fmt.Fprintf(out, " %s | %s | %s | %s |\n", spans(r.crashes), s.holder, s.server, s.failover)
	}
}

// spans prints the median and the longest.
func spans(all []time.Duration) string {
	return fmt.Sprintf("%s, %s", span(quantile(all, 0.5)), span(quantile(all, 1)))
}

// span prints two digits or three.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// replace puts the table in place of what follows the heading of a page.
func replace(path, table string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	const heading = "\n## Run\n"
	before, _, found := strings.Cut(string(page), heading)
	if !found {
		return errors.New(path + " has no heading \"## Run\"")
	}
	return os.WriteFile(path, []byte(before+heading+"\n"+table), 0o600)
}

// title is a store's name, with the version behind its first words.
func title(r *row) string {
	name, more, has := strings.Cut(r.store.name, ",")
	name += " " + r.server.version
	if has {
		name += "," + more
	}
	return name
}
