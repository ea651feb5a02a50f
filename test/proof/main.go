// SPDX-License-Identifier: Apache-2.0

// Command proof runs what shows that the library keeps its promises: controls, a storm of faults on real servers, the judge of what
// it left, virtual time, and the models. It starts the tests of this repository with a seed, reads what they counted
// (internal/testing/tally), compares that with [floors], and writes a table.
//
//	make proof                 ten minutes on two cores
//	make proof SHORT=1         two minutes
//	make proof SEED=7          the same seeds again
//	make proof ONLY=virtual    one step
//	make proof SOAK=1h         so long for the storm and virtual time together
//
// On a busy machine the storm, or virtual time, may miss a floor: then it continues by further seeds, up to three times as long in all.
// The exit status is 1 if a step failed, or a floor was not met.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

func main() {
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

// proof is a run.
type proof struct {
	root, dir string // of the checkout, and of what the run leaves behind
	seed      uint64
	short     bool
	soak      time.Duration // of the storm and of virtual time together
	begun     time.Time

	servers []server
	steps   []*step
	round   uint64          // how often the step that runs was repeated
	out     strings.Builder // the tables
	models  models
	mutants []mutant

	failing sync.Mutex // tests may fail side by side
	failed  []string   // what failed, a line each; guarded by failing until all have ended
}

// step is a part of the run.
type step struct {
	name  string
	run   func(p *proof)
	again bool // it draws what happens: by further seeds, if a floor is not met, as on a busy machine
	took  time.Duration
	rows  []tally.Row // what its tests counted
}

// moreRounds is how often such a step is repeated at most.
const moreRounds = 2

func newSteps() []*step {
	return []*step{
		{name: "controls", run: (*proof).controls},
		{name: "storm", run: (*proof).storm, again: true},
		{name: "histories", run: (*proof).histories},
		{name: "virtual", run: (*proof).virtual, again: true},
		{name: "models", run: (*proof).checkModels},
	}
}

var errFailed = errors.New("something failed, or a floor was not met")

func program() error {
	p := &proof{begun: time.Now(), steps: newSteps()}
	root := flag.String("C", "..", "the root of the checkout")
	only := flag.String("only", "", "run these steps alone: their names with commas between them")
	page := flag.Bool("page", false, "run nothing, and put the tables of the last run into docs/reliability.md")
	faults := flag.Bool("faults", false, "run nothing, and print every fault that was found, by the package that was mended")
	flag.Uint64Var(&p.seed, "seed", 0, "the first seed of what is drawn; 0: one that is drawn")
	flag.BoolVar(&p.short, "short", false, "take two minutes instead of ten")
	flag.DurationVar(&p.soak, "soak", 0, "how long the storm and virtual time take together; 0 for six minutes, or one with -short")
	flag.Parse()
	var err error
	if p.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	p.dir = filepath.Join(p.root, ".bin", "proof")
	switch {
	case *page:
		return p.writePage()
	case *faults:
		return p.printFaults(os.Stdout)
	}
	if p.seed == 0 {
		p.seed = rand.Uint64N(1_000_000_000)
	}
	if p.soak == 0 {
		p.soak = 6 * time.Minute
		if p.short {
			p.soak = 50 * time.Second
		}
	}
	return p.run(strings.FieldsFunc(*only, func(r rune) bool { return r == ',' || r == ' ' }))
}

// run runs the steps, prints the tables, and writes them.
func (p *proof) run(only []string) error {
	if err := os.RemoveAll(p.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(p.historiesDir(), 0o755); err != nil {
		return err
	}
	if len(only) > 0 {
		for _, name := range only {
			if !slices.ContainsFunc(p.steps, func(s *step) bool { return s.name == name }) {
				return fmt.Errorf("there is no step %q", name)
			}
		}
		p.steps = slices.DeleteFunc(p.steps, func(s *step) bool { return !slices.Contains(only, s.name) })
	}
	if err := p.header(); err != nil {
		return err
	}
	for _, s := range p.steps {
		begun := time.Now()
		fmt.Printf("--- %s\n", s.name)
		p.take(s)
		s.took = time.Since(begun)
		fmt.Printf("    %.0f s\n", s.took.Seconds())
	}
	p.tables()
	fmt.Print(p.out.String())
	if err := os.WriteFile(p.dir+".md", []byte(p.out.String()), 0o644); err != nil {
		return err
	}
	for _, line := range p.failed {
		fmt.Println("FAILED:", line)
	}
	fmt.Printf("seed %d, %.0f s, %s\n", p.seed, time.Since(p.begun).Seconds(), p.dir+".md")
	if len(p.failed) > 0 {
		return errFailed
	}
	return nil
}

// take runs a step, with more seeds while it can meet its floors by that, and reads what it counted.
func (p *proof) take(s *step) {
	for p.round = 0; ; p.round++ {
		s.run(p)
		var err error
		if s.rows, err = tally.Read(p.tallyOf(s.name)); err != nil {
			p.fail("%s: %v", s.name, err)
		}
		missed := p.missed(s)
		if !s.again || p.round == moreRounds || len(p.failed) > 0 || len(missed) == 0 {
			return
		}
		fmt.Printf("    it continues for %s\n", strings.Join(missed, ", "))
	}
}

func (p *proof) fail(format string, args ...any) {
	p.failing.Lock()
	defer p.failing.Unlock()
	p.failed = append(p.failed, fmt.Sprintf(format, args...))
	fmt.Printf("    "+format+"\n", args...)
}

// tallyOf returns the file that the tests of a step count in.
func (p *proof) tallyOf(step string) string { return filepath.Join(p.dir, step+".counts") }

// historiesDir returns the folder of what the storm leaves to the judge.
func (p *proof) historiesDir() string { return filepath.Join(p.dir, "histories") }

// step returns a step of this run, nil if it was left out.
func (p *proof) step(name string) *step {
	for _, s := range p.steps {
		if s.name == name {
			return s
		}
	}
	return nil
}

// count returns what a step counted in a group: of some names, or of all.
func (s *step) count(group string, names ...string) (n int64) {
	if s == nil {
		return 0
	}
	for _, r := range s.rows {
		if r.Group == group && (len(names) == 0 || slices.Contains(names, r.Name)) {
			n += r.N
		}
	}
	return n
}

// row returns what a step counted by that name.
func (s *step) row(group, name string) tally.Row {
	if s != nil {
		for _, r := range s.rows {
			if r.Group == group && r.Name == name {
				return r
			}
		}
	}
	return tally.Row{}
}

// names returns the names of a group of a step, sorted.
func (s *step) names(group string) (names []string) {
	if s == nil {
		return nil
	}
	for _, r := range s.rows {
		if r.Group == group {
			names = append(names, r.Name)
		}
	}
	return names
}
