// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func main() {
	redistest.RegisterChild("leader", runLeader)
	if redistest.RunChild() {
		return
	}
	quick := flag.Bool("short", false, "run everything in its short form, for CI")
	what := flag.String("only", "", "print one of the `tables`: hand-offs, crashes, idle")
	flag.Parse()
	c := full()
	if *quick {
		c = short()
	}
	var out strings.Builder
	err := run(&out, c, *what)
	fmt.Print(out.String())
	if errors.Is(err, exec.ErrNotFound) {
		fmt.Println("left out:", err)
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/etcd:", err)
		os.Exit(1)
	}
}

func full() scale {
	return scale{10, 5, 60, 12, 8, 5 * time.Second, election.DefaultLease, 2 * election.DefaultLease}
}

func short() scale {
	return scale{3, 2, 5, 1, 2, 2 * time.Second, 2 * time.Second, 2 * time.Second}
}

// run measures and prints the table that only names, or everything. The error is exec.ErrNotFound if there is no etcd.
func run(out *strings.Builder, c scale, only string) error {
	binary, err := etcdBinary()
	if err != nil {
		return err
	}
	version, err := exec.Command(binary, "--version").Output() //nolint:noctx // it ends by itself
	if err != nil {
		return fmt.Errorf("etcd's version: %w", err)
	}
	first, _, _ := strings.Cut(string(version), "\n")
	sides, err := start()
	defer func() {
		for _, s := range sides {
			s.close()
		}
	}()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "- %s, %s/%s, %d cores\n- %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), first)
	inMemory := []*side{sides[0], sides[2]} // a disk is not what a lease waits for
	for _, t := range []struct {
		name  string
		print func(*strings.Builder, []*side, scale) error
		sides []*side
	}{{"hand-offs", printHandOffs, sides}, {"crashes", printCrashes, inMemory}, {"idle", printIdle, inMemory}} {
		if only != "" && only != t.name {
			continue
		}
		if err := t.print(out, t.sides, c); err != nil {
			return err
		}
	}
	return nil
}

// start starts the servers.
func start() (sides []*side, err error) {
	for _, begin := range []func() (*side, error){
		func() (*side, error) { return startRedis("signalbox, in memory") },
		func() (*side, error) {
			return startRedis("signalbox, flushed", "--appendonly", "yes", "--appendfsync", "always")
		},
		func() (*side, error) { return startEtcd("etcd, in memory", memory) },
		func() (*side, error) { return startEtcd("etcd, flushed", "") },
	} {
		s, err := begin()
		if err != nil {
			return sides, err
		}
		sides = append(sides, s)
	}
	return sides, nil
}

func printHandOffs(out *strings.Builder, sides []*side, c scale) error {
	fmt.Fprintf(out, "\n### From Resign until the next of %d candidates leads\n\n", c.candidates)
	fmt.Fprint(out, "| implementation | p50 | p99 | max | Leader p50 | requests/hand-off | hand-offs |\n|---|---:|---:|---:|---:|---:|---:|\n")
	all := make([]handOffs, len(sides))
	for range c.rounds { // in turns, so that a slow minute of the machine slows all of them
		for i, s := range sides {
			if err := s.handOff(c, &all[i]); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for i, s := range sides {
		h := &all[i]
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %.1f | %d |\n", s.name, quantile(h.took, 0.5).Round(time.Microsecond),
			quantile(h.took, 0.99).Round(time.Microsecond), quantile(h.took, 1).Round(time.Microsecond),
			quantile(h.calls, 0.5).Round(time.Microsecond), float64(h.requests)/float64(len(h.took)), len(h.took))
	}
	return nil
}

func printCrashes(out *strings.Builder, sides []*side, c scale) error {
	fmt.Fprintf(out, "\n### From the SIGKILL of the leader until the next one leads, lease %v\n\n", c.crashLease)
	fmt.Fprint(out, "| implementation | p50 | p99 | max | crashes |\n|---|---:|---:|---:|---:|\n")
	for _, s := range sides {
		took, err := s.crashes(c)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %d |\n", s.name, quantile(took, 0.5).Round(time.Millisecond),
			quantile(took, 0.99).Round(time.Millisecond), quantile(took, 1).Round(time.Millisecond), len(took))
	}
	return nil
}

func printIdle(out *strings.Builder, sides []*side, c scale) error {
	fmt.Fprintf(out, "\n### Requests a minute of an idle election, lease %v\n\n", c.idleLease)
	fmt.Fprint(out, "| implementation | the leader | each candidate | each observing process |\n|---|---:|---:|---:|\n")
	for _, s := range sides {
		each, err := s.idle(c)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(out, "| %s |", s.name)
		for _, n := range each {
			fmt.Fprintf(out, " %d and %d pings |", n.requests, n.pings)
		}
		fmt.Fprintln(out)
	}
	return nil
}
