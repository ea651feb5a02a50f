// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// textTests are the tests of package scripts that read the scripts' texts instead of running them.
var textTests = []string{
	"TestAReleasedScriptNeverChanges", "TestTheServerKnowsAScriptByTheDigestOfItsFile", "TestAllHasTheScriptsInUse",
	"TestAFileIsTheSameTextEverywhere", "TestAPartHasAHeaderAndAUse", "TestAScriptIsShort", "TestAHeaderSaysWhatTheScriptIs",
	"TestAHeaderHasTheKeysAndArgumentsOfTheBody", "TestAHeaderListsEveryReturn", "TestNoKeyIsBuiltInsideAScript",
	"TestNumbersBecomeTextByFormatOnly", "TestEveryCodeIsInTheTable",
}

// longTests are the tests of test/virtual that take three quarters of its time. They are the last
// stage, so that a run can be stopped before it.
var longTests = []string{
	"TestAGrantAroundACancelIsNeverLostAndNeverDoubled", "TestAHolderKeepsItsLeaseOverAStep",
	"TestALeaseIsNotTrustedTooLongAfterAStep", "TestWaitingCostsAHeartbeatASecondHoweverManyWait",
	"TestALostMessageOfALatchIsFoundWithinBounds", "TestANightlyJobRunsOnceANight",
	"TestARenewalSurvivesAStep", "TestARoundIsKeptWhileItHasAWaiter",
	"TestASharedHoldIsRenewedForHours", "TestAWaiterIsGrantedOnTimeAfterAStep",
	"TestAWaiterOutlivesADeadHolderOverAStep", "TestAnAcquireSurvivesAStep",
	"TestAnEndIsKeptOverAStep", "TestChaosAroundPermitsLeavesNothingBehind",
	"TestChaosInAQueueLeavesNothingBehind",
	"TestChaosWithHandOversLeavesNothingBehind",
	"TestGrantsContinueWhileSubscriptionsBreak", "TestLeaseOfADeadWireEndsBeforeItsKey",
	"TestHoursOfWaitingCostAPollASecond", "TestLeaseIsRenewedForTenHours",
	"TestLocksThatAreHeldAreRenewedTogether", "TestNoWaiterStarvesAmongHundredsOfSemaphores",
}

const (
	stages  = 5
	related = "scripts (related)"
	virtual = "test/virtual"
	long    = virtual + " (long)"
)

// The fate of a mutant. Killed and hung count as noticed, survived as not noticed, the rest as neither.
const (
	killed   = "killed"
	hung     = "hung"
	survived = "survived"
	broken   = "broken" // does not build
	gone     = "gone"
)

// result is a line of the results.
type result struct {
	key, status, stage, test string
	took                     time.Duration
}

func (r result) String() string {
	return strings.Join([]string{r.key, r.status, cmp.Or(r.stage, "-"), cmp.Or(r.test, "-"), strconv.Itoa(int(r.took.Seconds()))}, "\t")
}

type runner struct {
	root, results, only string
	limit, parallel     int
	stages              int
	short               bool

	list  []mutant
	alone []bool
	all   *overlay

	mu       sync.Mutex
	out      *os.File
	binaries map[string]func() (*tests, error) // by stage
}

// run runs the tests against the mutants of the list, except those that have a result.
func (r *runner) run(name string) error {
	list, err := readList(name)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer remove(work)
	r.list, r.binaries = list, make(map[string]func() (*tests, error))
	if r.all, r.alone, err = switched(r.root, work, list); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.results), 0o755); err != nil {
		return err
	}
	if r.out, err = os.OpenFile(r.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	defer func() { _ = r.out.Close() }() // every line is checked when it is written
	return r.work(r.chosen(list))
}

// chosen returns the numbers of the mutants to run.
func (r *runner) chosen(list []mutant) []int {
	var numbers []int
	for i, m := range list {
		if r.only == "" || m.isLua() == (r.only == "lua") {
			numbers = append(numbers, i)
		}
	}
	if r.limit <= 0 || r.limit >= len(numbers) {
		return numbers
	}
	spread := make([]int, r.limit)
	for i := range spread {
		spread[i] = numbers[i*len(numbers)/r.limit]
	}
	return spread
}

// stagesOf returns the folders of the tests of each stage, the cheapest first.
func stagesOf(m mutant) []string {
	if m.isLua() {
		return []string{related, "scripts", "test/walks", virtual, long}
	}
	return []string{path.Dir(m.File), "test/surface", "test/kinds", virtual, long}
}

// folderOf returns the folder of the tests of a stage.
func folderOf(stage string) string {
	folder, _, _ := strings.Cut(stage, " ")
	return folder
}

// work begins a stage when all mutants are through the one before, so that a run that is stopped
// has treated all of them alike.
func (r *runner) work(numbers []int) error {
	done, err := readResults(r.results)
	if err != nil {
		return err
	}
	for n := range min(cmp.Or(r.stages, stages), stages) {
		queue := make(chan int)
		var workers sync.WaitGroup
		failed := make([]error, r.parallel)
		for w := range r.parallel {
			workers.Go(func() {
				for i := range queue {
					if failed[w] == nil {
						failed[w] = r.test(i, stagesOf(r.list[i])[n])
					}
				}
			})
		}
		for _, i := range numbers {
			found, stages := done[r.list[i].key()], stagesOf(r.list[i])
			if len(found) > 0 && verdict(found) != survived || n >= len(stages) {
				continue
			}
			if !slices.ContainsFunc(found, func(f result) bool { return f.stage == stages[n] }) {
				queue <- i
			}
		}
		close(queue)
		workers.Wait()
		if err := errors.Join(failed...); err != nil {
			return err
		}
		if done, err = readResults(r.results); err != nil {
			return err
		}
	}
	return nil
}

// verdict is what the results of all stages say of a mutant together; empty without results.
func verdict(of []result) string {
	if len(of) == 0 {
		return ""
	}
	return of[len(of)-1].status // only survivors reach a later stage
}

// test runs one stage of one mutant and writes the result.
func (r *runner) test(i int, stage string) error {
	m, start := r.list[i], time.Now()
	found, err := r.try(i, stage)
	switch {
	case errors.Is(err, errGone):
		found.status = gone
	case err != nil:
		return fmt.Errorf("%s: %w", m.key(), err)
	}
	found.key, found.stage, found.took = m.key(), stage, time.Since(start)
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Println(found)
	_, err = fmt.Fprintln(r.out, found)
	return err
}

// try runs one stage of one mutant.
func (r *runner) try(i int, stage string) (result, error) {
	m := r.list[i]
	text, err := os.ReadFile(filepath.Join(r.root, m.File))
	if err != nil {
		return result{}, errGone
	}
	changed, err := m.apply(string(text))
	if err != nil {
		return result{}, err
	}
	t, err := r.binary(stage)
	if err != nil || t == nil {
		return result{status: survived, test: "(no tests)"}, err
	}
	env := fmt.Sprintf("%s=%d", envMutant, i+1)
	if m.isLua() {
		dir := filepath.Join(r.all.dir, "scripts", strconv.Itoa(i+1))
		defer remove(dir)
		if err := write(filepath.Join(dir, m.File), []byte(changed)); err != nil {
			return result{}, err
		}
		env = envScripts + "=" + dir
		if stage == related {
			if t, err = t.related(m); err != nil {
				return result{}, err
			}
		}
	} else if r.alone[i] {
		own := newOverlay(r.root, filepath.Join(r.all.dir, "alone", strconv.Itoa(i+1)))
		defer remove(own.dir)
		if err := errors.Join(own.put(m.File, changed), own.save()); err != nil {
			return result{}, err
		}
		binary, err := own.build(folderOf(stage))
		if err != nil {
			return result{status: broken}, nil
		}
		t = t.with(binary)
	}
	status, test, uncertain := t.try(env)
	if status == survived && len(uncertain) > 0 {
		test = "in doubt: " + strings.Join(uncertain, " ")
	}
	return result{status: status, test: test}, nil
}

// binary returns the tests of a stage with all mutants switched off, which the first call builds and runs.
// It returns nil if the stage has no tests.
func (r *runner) binary(stage string) (*tests, error) {
	r.mu.Lock()
	once := r.binaries[stage]
	if once == nil {
		once = sync.OnceValues(func() (*tests, error) { return r.prepare(stage) })
		r.binaries[stage] = once
	}
	r.mu.Unlock()
	return once()
}

// prepare builds the tests of a stage and runs them without a mutant. Tests that fail then are
// skipped afterwards, and so are those that see any change of a script's text.
func (r *runner) prepare(stage string) (*tests, error) {
	dir := folderOf(stage)
	if _, err := os.Stat(filepath.Join(r.root, dir)); err != nil {
		return nil, nil //nolint:nilnil,nilerr // the stage was removed
	}
	binary, err := r.all.build(dir)
	if err != nil || binary == "" {
		return nil, err
	}
	t := &tests{binary: binary, folder: filepath.Join(r.root, dir), short: r.short, passed: new(sync.Map)}
	t.learnFlags()
	switch stage {
	case related:
		t.skip, t.usual = textTests, 20*time.Second
		return t, nil // the next stage runs all of them without a mutant
	case "scripts":
		t.skip = slices.Clone(textTests)
	case virtual:
		t.skip = slices.Clone(longTests)
	case long:
		t.all = strings.Join(longTests, "|")
	}
	if err := t.skipFailing(""); err != nil {
		return nil, fmt.Errorf("%s without a mutant: %w", stage, err)
	}
	if stage == "scripts" {
		changed, err := commentScripts(r.root)
		if err != nil {
			return nil, err
		}
		folder := filepath.Join(r.all.dir, "scripts", "comment", stage)
		for name, text := range changed {
			if err := write(filepath.Join(folder, name), []byte(text)); err != nil {
				return nil, err
			}
		}
		if err := t.skipFailing(envScripts + "=" + folder); err != nil {
			return nil, fmt.Errorf("%s with comments: %w", stage, err)
		}
	}
	fmt.Printf("# %s: %.0f s without a mutant; skipped: %s\n", stage, t.usual.Seconds(), strings.Join(t.skip, " "))
	return t, nil
}

// readResults returns the results by key, one for each stage. A missing file is an empty one.
func readResults(name string) (map[string][]result, error) {
	results := make(map[string][]result)
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return results, nil
	} else if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		f := strings.Split(line, "\t")
		if len(f) < 5 {
			continue
		}
		seconds, err := strconv.Atoi(f[4])
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", name, line, err)
		}
		results[f[0]] = append(results[f[0]], result{key: f[0], status: f[1], stage: f[2], test: f[3], took: time.Duration(seconds) * time.Second})
	}
	return results, nil
}
