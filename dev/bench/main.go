// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func main() {
	if isWorker() {
		return
	}
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options is what the command line says.
type options struct {
	scale      scale
	works      []work
	impls      []implementation
	cpuProfile string
	into       string
}

// parseOptions reads the command line.
func parseOptions(args []string, usage io.Writer) (options, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(usage)
	quick := flags.Bool("short", false, "run everything in its short form, for CI")
	names := flags.String("works", "", "run only these `works`, of "+strings.Join(workNames(), ","))
	impls := flags.String("impl", "", "run only these `implementations`, of "+strings.Join(implNames(), ","))
	server := flags.String("redis", "", "the server's `binary`; redis-server on the PATH by default")
	rounds := flags.Int("rounds", 0, "how many `rounds` to take medians of; 5, and 3 on contended locks, by default")
	many := flags.Int("held", 0, "how many `locks` the work held holds; 10000 by default")
	waiting := flags.Int("waiters", 0, "how many `goroutines` the work waiters has, ten for each lock; 5000 by default")
	stop := flags.Duration("outage", 0, "how long the work outage `stops` the server; 20s by default")
	profile := flags.String("cpuprofile", "", "write a CPU profile of this process to a `file`")
	into := flags.String("into", "", "run nothing; put the tables of a run, read from standard input, into a `page`")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if *server != "" {
		if err := os.Setenv(redistest.ServerEnv, *server); err != nil {
			return options{}, err
		}
	}
	c := options{scale: full(), cpuProfile: *profile, into: *into}
	if *quick {
		c.scale = short()
	}
	if *rounds > 0 {
		c.scale.rounds, c.scale.contendedRounds = *rounds, *rounds
	}
	if *many > 0 {
		c.scale.held = *many
	}
	if *stop > 0 {
		c.scale.outage = *stop
	}
	if *waiting > 0 {
		c.scale.waiters, c.scale.waited = *waiting, max(*waiting/10, 1)
	}
	var err error
	if c.works, err = selectedWorks(*names); err == nil {
		c.impls, err = selected(*impls)
	}
	return c, err
}

// run does all of what main does.
func run(args []string, in io.Reader, out, progress io.Writer) (err error) {
	testing.Init() // testing.Benchmark needs its flags; they are no flags of this program
	c, err := parseOptions(args, progress)
	if err != nil {
		return err
	}
	if c.into != "" {
		return renew(c.into, in)
	}
	if c.cpuProfile != "" {
		stop, err := profileTo(c.cpuProfile)
		if err != nil {
			return err
		}
		defer stop()
	}
	server, err := redistest.StartServer()
	if err != nil {
		return err
	}
	defer server.Close()
	b := &bench{server: server, scale: c.scale, chosen: c.impls}
	if err := block(out, machineBlock, func(w io.Writer) error { return describe(w, server) }); err != nil {
		return err
	}
	return b.runAll(c.works, out, progress)
}

// runAll runs the works and prints their tables as they come.
func (b *bench) runAll(all []work, out, progress io.Writer) error {
	for _, w := range all {
		began := time.Now()
		tables, err := w.run(b)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if _, err := fmt.Fprintf(progress, "%s: %v\n", w.name, time.Since(began).Round(time.Millisecond)); err != nil {
			return err
		}
		if err := writeBlock(out, w.name, tables); err != nil {
			return err
		}
	}
	return nil
}

func profileTo(path string) (stop func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
		}
	}, nil
}

// selectedWorks returns the works of a list of names; all of them for "".
func selectedWorks(list string) ([]work, error) {
	all := works()
	if list == "" {
		return all, nil
	}
	var chosen []work
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(workNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("no work is called %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func workNames() []string {
	var names []string
	for _, w := range works() {
		names = append(names, w.name)
	}
	return names
}

func implNames() []string {
	var names []string
	for _, impl := range implementations() {
		names = append(names, impl.name)
	}
	return names
}
