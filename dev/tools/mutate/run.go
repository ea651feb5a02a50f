// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-go/signalbox/dev/tools/mutate/worker"
)

// What becomes of a mutant, beside what a worker reports.
const (
	crashed    = "crashed"    // the process ended
	broken     = "broken"     // it does not build
	gone       = "gone"       // its text is gone
	equivalent = "equivalent" // it is not run: its row has the reason
)

// shared are the stages of all mutants, behind the tests of their own packages.
var shared = []string{"test/suite", "test/virtual"}

// result is a line of the results: what became of a mutant in a stage.
type result struct {
	status, stage, cell, tried string
	key                        string
}

func (r result) String() string {
	return strings.Join([]string{r.status, cmp.Or(r.stage, "-"), cmp.Or(r.cell, "-"), cmp.Or(r.tried, "-"), r.key}, "\t")
}

// isLast says whether a mutant meets no other stage after this result.
func (r result) isLast() bool { return r.status != worker.Survived && r.status != worker.Unreached }

// readResults returns the results by key, one for each stage. A missing file is an empty one.
func readResults(name string) (map[string][]result, error) {
	results := make(map[string][]result)
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 5); len(f) == 5 {
			results[f[4]] = append(results[f[4]], result{f[0], f[1], f[2], f[3], f[4]})
		}
	}
	return results, nil
}

func (r result) isKilled() bool {
	return slices.Contains([]string{worker.Killed, worker.Hung, worker.Spoilt, crashed}, r.status)
}

// final returns what the results of all stages say of a mutant together: the one that ended its way through them, or that a cell met
// it and did not notice it, or that none did.
func final(of []result) (last result) {
	for _, r := range of {
		if last.status != worker.Survived || r.isLast() {
			last = r
		}
	}
	if last.status == worker.Survived || last.status == worker.Unreached {
		last.stage = "" // it was in all of them
	}
	return last
}

// runner runs the tests against mutants.
type runner struct {
	root, results   string
	verdicts        string // the file with the verdicts of an earlier run
	match           string
	limit, parallel int
	onlyOwn, isLong bool
	onlyKnown       bool // a mutant meets the cell that killed it before, and no other
	patience        time.Duration
	hooks           []hook

	all   *overlay
	done  map[string][]result
	known map[string][]result // the verdicts of an earlier run

	mu    sync.Mutex
	out   *os.File
	tried map[int]bool
}

// run runs the tests against the mutants of the list, except those that have a result.
func (r *runner) run(name string) error {
	_, list, err := readList(name)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	if r.all, err = newOverlay(r.root, work, r.hooks, list); err != nil {
		return err
	}
	if r.done, err = readResults(r.results); err != nil {
		return err
	}
	if r.known, err = readResults(r.verdicts); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.results), 0o755); err != nil {
		return err
	}
	if r.out, err = os.OpenFile(r.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	defer func() { _ = r.out.Close() }() // every line is checked when it is written
	r.tried = make(map[int]bool)
	return r.work(r.chosen(list))
}

// chosen returns the numbers of the mutants to run, by the folder of their own tests.
func (r *runner) chosen(list []mutant) map[string][]int {
	var numbers []int
	for i, m := range list {
		if m.Reason == "" && strings.HasPrefix(m.File, r.match) {
			numbers = append(numbers, i)
		}
	}
	byFolder := make(map[string][]int)
	n := len(numbers)
	if r.limit > 0 {
		n = min(n, r.limit)
	}
	for i := range n {
		number := numbers[i*len(numbers)/n]
		byFolder[r.ownStage(list[number])] = append(byFolder[r.ownStage(list[number])], number)
	}
	return byFolder
}

// ownStage returns the folder of the tests beside a mutant.
func (r *runner) ownStage(m mutant) string {
	if m.isLua() {
		return "scripts"
	}
	return path.Dir(m.File)
}

// work builds all stages. Then it runs one after the other: those of packages, and what they leave by the shared ones. While
// mutants are tried in one stage, the next one learns what its cells reach.
func (r *runner) work(byFolder map[string][]int) error {
	start := time.Now()
	folders := slices.SortedFunc(maps.Keys(byFolder), func(a, b string) int { return cmp.Or(len(byFolder[b])-len(byFolder[a]), cmp.Compare(a, b)) })
	if !r.onlyOwn {
		folders = append(folders, shared...)
	}
	if r.onlyKnown {
		folders = slices.Compact(slices.Sorted(slices.Values(folders)))
	}
	var ready []*stage
	for _, folder := range folders {
		if len(r.left(folder, byFolder)) == 0 {
			continue
		}
		binary, err := r.all.build(folder)
		if err != nil {
			return err
		}
		if binary != "" {
			ready = append(ready, r.stageOf(folder, binary, r.left(folder, byFolder)))
		}
	}
	fmt.Printf("# built %d binaries in %.0f s\n", len(ready), time.Since(start).Seconds())
	prepared, stop := make(chan *stage), make(chan struct{})
	defer close(stop)
	var failed error // read when prepared is closed
	go func() {
		defer close(prepared)
		for _, s := range ready {
			begun := time.Now()
			p, cells, err := s.ready()
			if err != nil {
				failed = err
				return
			}
			p.end()
			fmt.Printf("# %s: %d cells in %.0f s\n", s.folder, cells, time.Since(begun).Seconds())
			select {
			case prepared <- s:
			case <-stop:
				return
			}
		}
	}()
	for s := range prepared {
		if err := r.runStage(s, r.left(s.folder, byFolder)); err != nil {
			return err
		}
	}
	took, cpu := time.Since(start).Minutes(), usedByChildren().Minutes()
	failed = errors.Join(failed, r.living(byFolder))
	fmt.Printf("# %d mutants in %.1f min (of processors %.1f min): %.0f a minute\n", len(r.tried), took, cpu, float64(len(r.tried))/took)
	return failed
}

// usedByChildren returns the time of processors that the children took.
func usedByChildren() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &usage) // it knows this argument
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// stageOf returns the stage of a folder. If each mutant meets only the cell that killed it before, it has those.
func (r *runner) stageOf(folder, binary string, left []int) *stage {
	s := &stage{folder: folder, binary: binary, base: binary + ".json", root: r.root, isLong: r.isLong, patience: r.patience}
	if r.onlyKnown {
		for _, i := range left {
			s.cells = append(s.cells, r.killer(i).cell)
		}
	}
	return s
}

// living returns an error for each mutant that lives, if all were killed before.
func (r *runner) living(byFolder map[string][]int) (living error) {
	if !r.onlyKnown {
		return nil
	}
	for _, of := range byFolder {
		for _, i := range of {
			if !final(r.done[r.all.list[i].key()]).isKilled() {
				living = errors.Join(living, fmt.Errorf("%v: %w", r.all.list[i], errLives))
			}
		}
	}
	return living
}

// left returns the mutants that have to meet the tests of a folder still.
func (r *runner) left(folder string, byFolder map[string][]int) (numbers []int) {
	for own, of := range byFolder {
		for _, i := range of {
			found := r.done[r.all.list[i].key()]
			isDone := slices.ContainsFunc(found, func(f result) bool { return f.isLast() || f.stage == folder })
			meets := own == folder || slices.Contains(shared, folder)
			if r.onlyKnown {
				meets = r.killer(i).stage == folder
			}
			if meets && !isDone {
				numbers = append(numbers, i)
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

var errLives = errors.New("no test notices it any more")

// killer returns the verdict of an earlier run that killed a mutant, or an empty one.
func (r *runner) killer(i int) result {
	for _, known := range r.known[r.all.list[i].key()] {
		if known.isKilled() {
			return known
		}
	}
	return result{}
}

// runStage tries mutants in a stage, with several processes.
func (r *runner) runStage(s *stage, numbers []int) error {
	queue := make(chan int, len(numbers))
	for _, i := range numbers {
		queue <- i
	}
	close(queue)
	var workers sync.WaitGroup
	failed := make([]error, min(r.parallel, len(queue)))
	for n := range failed {
		workers.Go(func() {
			w := &workshop{stage: s}
			defer w.end()
			for i := range queue {
				if failed[n] = r.try(w, i); failed[n] != nil {
					return
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(failed...)
}

// try tries one mutant in a stage and writes the result.
func (r *runner) try(w *workshop, i int) error {
	m, start := r.all.list[i], time.Now()
	job := worker.Job{Number: i + 1, Function: r.all.functions[i]}
	for _, known := range r.known[m.key()] {
		if known.stage == w.folder {
			job.Known = known.cell
		}
	}
	found := worker.Report{}
	var err error
	switch {
	case r.all.gone[i]:
		found.Status = gone
	case r.all.broken[i]:
		found.Status = broken
	case r.all.alone[i]:
		found, err = r.tryAlone(w.stage, i)
	default:
		if m.isLua() {
			var s source
			if s, err = readSource(r.root, m.File); err != nil {
				return err
			}
			text, err := s.apply(m)
			if err != nil {
				return err
			}
			job.Number, job.Texts = 0, map[string]string{strings.TrimPrefix(m.File, "scripts/"): text}
		}
		found, err = w.try(job)
	}
	if err != nil {
		return fmt.Errorf("%v: %w", m, err)
	}
	tried := fmt.Sprintf("%d of %d in %.1f s", found.Tried, found.Reached, time.Since(start).Seconds())
	got := result{found.Status, w.folder, found.Cell, tried, m.key()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tried[i] = true
	r.done[got.key] = append(r.done[got.key], got)
	fmt.Println(got)
	_, err = fmt.Fprintln(r.out, got)
	return err
}

// tryAlone tries a mutant that stands in no function, in a binary of its own. What the cells reach is not known of it.
func (r *runner) tryAlone(s *stage, i int) (worker.Report, error) {
	o, err := r.all.with(i)
	if err != nil {
		return worker.Report{}, err
	}
	defer func() { _ = os.RemoveAll(o.dir) }()
	own := *s
	if own.binary, err = o.build(s.folder); err != nil {
		return worker.Report{Status: broken}, nil
	}
	w := &workshop{stage: &own}
	defer w.end()
	return w.try(worker.Job{IsBuilt: true})
}
