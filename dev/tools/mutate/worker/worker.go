// SPDX-License-Identifier: Apache-2.0

// Package worker runs tests against mutants, many in one process. The runner adds it to the library that it builds: the library
// asks On which mutant is on, and a test binary calls Work instead of running its tests.
package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The environment of a process that works: the file with what each cell reaches, and the descriptor that it reports to.
const (
	EnvBase  = "SIGNALBOX_MUTANT_BASE"
	EnvCells = "SIGNALBOX_MUTANT_CELLS" // the names of the only cells, a line each; all if it is empty
	reports  = 3
)

// maxMemory is what a process may have. A mutant that never ends may take more, and the machine with it.
const maxMemory = 1 << 30

// Job is a mutant to try.
type Job struct {
	Number   int               // the number by which the library knows it, 0 for one that is built in or is a script
	Function int               // the number of its function; 0: cells may reach it that do not say so
	Texts    map[string]string // the changed texts of scripts and parts
	First    string            // the cell to begin with, after it has passed without the mutant
	Known    string            // the cell that killed it in an earlier run: it is tried early
	Skip     []string          // the cells to leave out
	IsBuilt  bool              // the binary has it for good: no cell runs without it
	Patience time.Duration     // the time without a failure after which it has survived, by a stopwatch; 0: no limit
}

// Report is what a process says: that a cell begins, and in the end what became of the mutant.
type Report struct {
	Cell    string
	IsPlain bool   // the cell runs without the mutant
	Status  string // empty while it is tried
	Tried   int    // the number of cells that ran
	Reached int    // the number of cells that reach it
}

// What becomes of a mutant. Ready is the status of a process that waits for one. After Hung and Spoilt it ends.
const (
	Ready     = "ready"
	Killed    = "killed"
	Survived  = "survived"
	Unreached = "unreached"
	Hung      = "hung"
	Spoilt    = "spoilt" // a cell fails without the mutant, too, after it failed with it
)

// state is for the whole process. What a test left running may read it while it is written, so everything is atomic or has a lock.
var (
	on    atomic.Int64
	ran   [10_000]atomic.Bool // by function
	texts atomic.Pointer[map[string]string]
	used  sync.Map // the names of the scripts that ran
	turns atomic.Int64

	cells []*cell
	begun atomic.Bool
	epoch = time.Now()

	// ChangeScripts composes the scripts again, and returns the names of those whose text is another one now.
	ChangeScripts = func() (changed []string) { return nil }
)

// cell is a test and what it does without a mutant.
type cell struct {
	Name    string
	Took    time.Duration
	Passes  bool
	Reads   bool // a comment more in the scripts makes it fail: it reads their texts
	Ran     []int
	Scripts []string

	test  func(t *testing.T)
	score int // the number of mutants that it killed
}

// On notes that a function runs, and returns the number of the mutant that is on.
func On(function int) int64 {
	if !ran[function].Load() { // what is only read stays in the caches of all processors
		ran[function].Store(true)
	}
	return on.Load()
}

// Used notes that a script runs.
func Used(name string) { used.Store(name, true) }

var titles = regexp.MustCompile(`(?m)^-- ([a-z-]+/[a-z-]+) v\d+$`)

// UsedText notes that a text runs that has scripts in it.
func UsedText(text string) {
	for _, title := range titles.FindAllStringSubmatch(text, -1) {
		Used(title[1])
	}
}

// commented as a path stands for a comment more in all texts.
const commented = "commented"

// Text returns the text of a script or a part, and whether it is another one than the file has.
func Text(path string, own []byte) ([]byte, bool) {
	changed := texts.Load()
	if changed == nil {
		return own, false
	}
	if text, isChanged := (*changed)[path]; isChanged {
		return []byte(text), true
	}
	if _, all := (*changed)[commented]; all {
		return append(bytes.Clone(own), "-- A comment more.\n"...), true
	}
	return own, true
}

// EachMutant is sync.OnceValue for what depends on scripts: f is called again when their texts have changed.
func EachMutant[T any](f func() T) func() T {
	var mu sync.Mutex
	var value T
	made := int64(-1)
	return func() T {
		mu.Lock()
		defer mu.Unlock()
		if now := turns.Load(); made != now {
			value, made = f(), now
		}
		return value
	}
}

// Cell adds a cell. It is called before Work.
func Cell(name string, test func(t *testing.T)) { cells = append(cells, &cell{Name: name, test: test}) }

func init() { //nolint:gochecknoinits // before the first server starts: one that outlives the process must not keep the runner waiting
	if os.Getenv(EnvBase) != "" {
		syscall.CloseOnExec(reports)
	}
}

// process is what Work has while it works.
type process struct {
	t *testing.T

	clock atomic.Pointer[stopwatch] // the time of the cell that runs

	mu  sync.Mutex
	out *json.Encoder
}

// Work learns what each cell reaches, unless the file of EnvBase has it, and tries the mutants that come by the standard input.
// The first call does everything.
func Work(t *testing.T) {
	name := os.Getenv(EnvBase)
	if name == "" || begun.Swap(true) {
		return
	}
	p := &process{t: t, out: json.NewEncoder(os.NewFile(reports, "reports"))}
	for flagName, value := range map[string]string{"rapid.seed": "1", "rapid.nofailfile": "true", "rapid.shrinktime": "1ns"} {
		if flag.Lookup(flagName) != nil {
			_ = flag.Set(flagName, value)
		}
	}
	if only := os.Getenv(EnvCells); only != "" {
		cells = slices.DeleteFunc(cells, func(c *cell) bool { return !slices.Contains(strings.Split(only, "\n"), c.Name) })
	}
	go p.watch()
	if err := p.learn(name); err != nil {
		t.Fatal(err)
	}
	cells = slices.DeleteFunc(cells, func(c *cell) bool { return !c.Passes })
	p.report(Report{Status: Ready, Reached: len(cells)})
	for in := json.NewDecoder(os.Stdin); ; {
		var j Job
		if err := in.Decode(&j); err != nil {
			return // the runner has no more
		}
		p.report(p.try(j))
	}
}

func (p *process) report(r Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(r) // without a runner there is no reader
}

// end ends the process in the middle of a cell.
func (p *process) end(status string) {
	p.report(Report{Status: status})
	os.Exit(3)
}

// stopwatch is when something began, and how long it may take.
type stopwatch struct{ start, processor, limit time.Duration }

func newStopwatch(limit time.Duration) *stopwatch {
	return &stopwatch{time.Since(epoch), processor(), limit}
}

// took returns the time of processors since the start, or a quarter of the time on the wall if that is more: a test may wait, and a
// machine may have other work.
func (s *stopwatch) took() time.Duration {
	return max(processor()-s.processor, (time.Since(epoch)-s.start)/4)
}

// processor returns the time that processors have given this process.
func processor() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // it knows this argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// watch ends the process if a cell takes too long, or too much memory, or if the runner is gone.
func (p *process) watch() {
	parent := os.Getppid()
	memory := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		metrics.Read(memory)
		cell := p.clock.Load()
		if os.Getppid() != parent {
			os.Exit(3)
		}
		if memory[0].Value.Uint64() > maxMemory || cell != nil && cell.took() > cell.limit {
			p.end(Hung)
		}
	}
}

// learn runs the cells that the file does not have. One that was begun and has no result ended the process; it is left out.
func (p *process) learn(name string) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each write was checked
	known := make(map[string]cell)
	for lines := json.NewDecoder(file); ; {
		var read cell
		if err := lines.Decode(&read); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		known[read.Name] = read // of two lines the second counts
	}
	out := json.NewEncoder(file)
	for _, c := range cells {
		if read, isKnown := known[c.Name]; isKnown {
			read.test = c.test
			*c = read
			continue
		}
		if err := out.Encode(c); err != nil {
			return err
		}
		for attempt := 0; attempt < 3 && !c.Passes; attempt++ {
			c.Reads = attempt > 0
			p.measure(c)
		}
		if err := out.Encode(c); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a cell without a mutant: with a comment more in the scripts, unless it reads them.
func (p *process) measure(c *cell) {
	for i := range ran {
		ran[i].Store(false)
	}
	used.Clear()
	var j *Job
	if !c.Reads {
		j = &Job{Texts: map[string]string{commented: ""}}
	}
	c.Took = 5 * time.Second // of which it may take ten times as much
	clock := newStopwatch(0)
	c.Passes = p.run(c, j, true)
	c.Took = clock.took()
	c.Ran, c.Scripts = nil, nil
	for i := range ran {
		if ran[i].Load() {
			c.Ran = append(c.Ran, i)
		}
	}
	used.Range(func(script, _ any) bool {
		c.Scripts = append(c.Scripts, fmt.Sprint(script))
		return true
	})
}

// switchTo switches to a mutant, or to none, and returns the scripts that it changes.
func switchTo(j *Job) []string {
	if j == nil {
		j = &Job{}
	}
	on.Store(int64(j.Number))
	before := texts.Load()
	if before == nil && len(j.Texts) == 0 {
		return nil
	}
	texts.Store(nil)
	if len(j.Texts) > 0 {
		texts.Store(&j.Texts)
	}
	turns.Add(1)
	return ChangeScripts()
}

// run runs a cell with a mutant, or without one. A cell that takes too long, or too much memory, ends the process.
func (p *process) run(c *cell, j *Job, isPlain bool) bool {
	p.report(Report{Cell: c.Name, IsPlain: isPlain})
	p.clock.Store(newStopwatch(10*c.Took + time.Second))
	defer p.clock.Store(nil)
	switchTo(j)
	defer switchTo(nil)
	return p.t.Run("m", func(t *testing.T) { t.Run("c", c.test) }) // of the two the first waits for a second that is parallel
}

// reach returns the cells that reach a mutant: those that killed many and the quick ones first.
func reach(j Job) []*cell {
	changed := switchTo(&j)
	switchTo(nil)
	reached := slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool {
		runs := func(script string) bool { return slices.Contains(changed, script) }
		switch {
		case slices.Contains(j.Skip, c.Name):
			return true
		case len(j.Texts) > 0:
			return c.Reads || !slices.ContainsFunc(c.Scripts, runs)
		default:
			return j.Function > 0 && !slices.Contains(c.Ran, j.Function)
		}
	})
	costs := func(c *cell) float64 { return c.Took.Seconds() / float64(1+c.score) }
	slices.SortStableFunc(reached, func(a, b *cell) int {
		return cmp.Compare(costs(a), costs(b))
	})
	for _, name := range []string{j.Known, j.First} { // First is put before Known
		if i := slices.IndexFunc(reached, func(c *cell) bool { return c.Name == name }); i > 0 {
			early := reached[i]
			copy(reached[1:], reached[:i])
			reached[0] = early
		}
	}
	return reached
}

// try runs the cells that reach a mutant until one fails. It has to pass without the mutant then, and fail again with it.
func (p *process) try(j Job) Report {
	reached, clock := reach(j), newStopwatch(j.Patience)
	r := Report{Status: Survived, Reached: len(reached)}
	if len(reached) == 0 {
		r.Status = Unreached
	}
	for _, c := range reached {
		passesWithout := func() bool { return j.IsBuilt || p.run(c, nil, true) }
		if c.Name == j.First && !passesWithout() {
			continue // it does not even pass in a new process
		}
		r.Tried++
		if p.run(c, &j, false) {
			if clock.limit > 0 && clock.took() > clock.limit {
				break
			}
			continue
		}
		if c.Name != j.First && !passesWithout() {
			p.end(Spoilt)
		}
		if c.Name == j.First || !p.run(c, &j, false) {
			c.score++
			r.Status, r.Cell = Killed, c.Name
			break
		}
	}
	return r
}
