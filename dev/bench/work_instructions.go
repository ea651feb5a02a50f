// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// instructions is what the server executes for a Lock and an Unlock: a figure that no load changes, by a server under valgrind's
// callgrind. It is left out where valgrind is not installed. The difference between a run of few pairs and one of many leaves out
// what the server does once.
func instructions(b *bench) ([]table, error) {
	if valgrind, _ := exec.LookPath("valgrind"); valgrind == "" {
		return nil, nil
	}
	all, err := b.interleave(b.chosen, 1, func(impl implementation) (sample, error) {
		few, many := b.scale.pairs, 6*b.scale.pairs
		before, err := b.instructionsOf(impl, few)
		if err != nil {
			return sample{}, err
		}
		after, err := b.instructionsOf(impl, many)
		return sample{ops: 1, figures: map[string]float64{instructionsFigure: (after - before) / float64(many-few)}}, err
	})
	if err != nil {
		return nil, err
	}
	count := medianOf(func(s sample) float64 { return s.figures[instructionsFigure] }, number)
	return []table{tabulate("Instructions of the server",
		"Of one Lock and Unlock, user mode, 64 goroutines on names of their own, which they use again.", all,
		[]column{{"instructions", count}})}, nil
}

const instructionsFigure = "instructions"

// instructionsOf returns what a server executes in all, from its start to its end, with so many pairs of impl.
func (b *bench) instructionsOf(impl implementation, pairs int) (float64, error) {
	const goroutines = 64
	folder, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	out := filepath.Join(folder, "out")
	server, err := startCounted(folder, out)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	process, err := impl.start(setup{addr: server.Addr(), lease: b.scale.lease})
	if err != nil {
		return 0, err
	}
	running, ctx := errgroup.WithContext(context.Background())
	for i := range goroutines {
		locker := process.locker(ctx, numbered("counted/", i))
		running.Go(func() error {
			for range pairs / goroutines {
				if err := (&runner{loop: &loopRun{}, locker: locker}).once(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(running.Wait(), process.close()); err != nil {
		return 0, err
	}
	_, _ = server.Do("SHUTDOWN", "NOSAVE") // it ends without a reply
	for range 100 {
		text, _ := os.ReadFile(out) // written when it ends
		if total := totalInstructions.FindSubmatch(text); total != nil {
			return strconv.ParseFloat(string(total[1]), 64)
		}
		pause(context.Background(), 100*time.Millisecond)
	}
	return 0, errors.New("callgrind wrote no total")
}

var totalInstructions = regexp.MustCompile(`(?m)^(?:summary|totals): (\d+)`)

// startCounted starts a server whose instructions are counted. The total is in the file out when it has ended.
func startCounted(folder, out string) (*redistest.Server, error) {
	binary := cmp.Or(os.Getenv(redistest.ServerEnv), "redis-server")
	script := fmt.Sprintf("#!/bin/sh\nexec valgrind -q --tool=callgrind --callgrind-out-file=%s %s \"$@\"\n", out, binary)
	counted := filepath.Join(folder, "server")
	if err := os.WriteFile(counted, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		return nil, err
	}
	before, wasSet := os.LookupEnv(redistest.ServerEnv)
	if err := os.Setenv(redistest.ServerEnv, counted); err != nil {
		return nil, err
	}
	defer func() {
		if _ = os.Setenv(redistest.ServerEnv, before); !wasSet {
			_ = os.Unsetenv(redistest.ServerEnv)
		}
	}()
	return redistest.StartServer()
}
