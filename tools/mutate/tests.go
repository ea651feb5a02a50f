// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tests is a built test binary.
type tests struct {
	binary, folder string
	short, isRapid bool
	unmutated      *tests // the tests without a mutant, if the binary always has one
	all            string // a pattern of the tests that count; empty for all
	skip           []string
	passed         *sync.Map     // the tests that passed alone
	usual          time.Duration // the duration of a run without a mutant
	patience       int           // the factor by which a run may take longer; 0 means 3
}

// with returns the same tests in a binary that has a mutant for good.
func (t *tests) with(binary string) *tests {
	other := *t
	other.binary, other.unmutated = binary, t
	return &other
}

// related returns the tests whose file has a word of the script's name in its own. They are likely
// to notice a mutant of the script.
func (t *tests) related(m mutant) (*tests, error) {
	files, err := filepath.Glob(filepath.Join(t.folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	words := regexp.MustCompile(`[a-z]+`).FindAllString(strings.TrimPrefix(strings.TrimPrefix(m.File, "scripts/"), "parts/"), -1)
	var names []string
	for _, file := range files {
		isIn := func(word string) bool { return len(word) > 3 && strings.Contains(filepath.Base(file), word) }
		if !slices.ContainsFunc(words, isIn) {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, match := range testFunc.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
	}
	other := *t
	other.all = cmp.Or(strings.Join(names, "|"), "none")
	return &other, nil
}

// outcome is what one run of the tests showed.
type outcome struct {
	failed bool
	hung   bool
	test   string // the first that failed, or those that hung; empty if none is named
	output string
}

var (
	failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	testFunc   = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	hungTest   = regexp.MustCompile(`(?m)^\t+((?:Test|Example|Fuzz)\S*) \(`)
)

// learnFlags finds out whether the tests know the flags of rapid.
func (t *tests) learnFlags() {
	out, _ := exec.Command(t.binary, "-h").CombinedOutput() // it exits with 2 in any case
	t.isRapid = bytes.Contains(out, []byte("-rapid.nofailfile"))
}

// run runs the tests, or only one of them, in their folder. Nothing of them outlives the run: they
// are a process group of their own, and what internal/testing/redistest started ends with them.
func (t *tests) run(env, only string, failfast bool) outcome {
	limit := time.Duration(max(t.patience, 3))*t.usual + 30*time.Second
	if t.usual == 0 {
		limit = 30 * time.Minute
	}
	if only != "" {
		limit = min(limit, t.usual+30*time.Second) // one test takes less than all of them
	}
	args := []string{"-test.timeout=" + limit.String(), "-test.paniconexit0", fmt.Sprintf("-test.failfast=%v", failfast)}
	if t.short {
		args = append(args, "-test.short")
	}
	if t.isRapid {
		args = append(args, "-rapid.nofailfile", "-rapid.seed=1")
	}
	if only != "" {
		args = append(args, "-test.run=^("+only+")$")
	} else if t.all != "" {
		args = append(args, "-test.run=^("+t.all+")$")
	}
	if len(t.skip) > 0 && only == "" {
		args = append(args, "-test.skip=^("+strings.Join(t.skip, "|")+")$")
	}
	var output bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second) // the tests end themselves before
	defer cancel()
	cmd := exec.CommandContext(ctx, t.binary, args...)
	cmd.Dir, cmd.Env = t.folder, append(os.Environ(), "GOWORK=off", env)
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = killGroup
	cmd.WaitDelay = 5 * time.Second // a child may keep the output open
	if err := cmd.Start(); err != nil {
		return outcome{failed: true, output: err.Error()}
	}
	err := cmd.Wait()
	_ = killGroup()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	o := outcome{failed: err != nil, hung: ctx.Err() != nil, output: output.String()}
	o.name()
	return o
}

// name finds the test in the output.
func (o *outcome) name() {
	_, after, found := strings.Cut(o.output, "panic: test timed out")
	switch {
	case found || o.hung:
		o.hung = true
		var names []string
		for _, match := range hungTest.FindAllStringSubmatch(after, -1) {
			name, _, _ := strings.Cut(match[1], "/")
			names = append(names, name)
		}
		slices.Sort(names)
		o.test = strings.Join(slices.Compact(names), "|")
	default:
		if match := failedTest.FindStringSubmatch(o.output); match != nil {
			o.test = match[1]
		}
	}
}

// skipFailing runs all tests and has those skipped from now on that fail twice.
func (t *tests) skipFailing(env string) error {
	start := time.Now()
	first := t.run(env, "", false)
	t.usual = max(t.usual, time.Since(start))
	if !first.failed {
		return nil
	}
	for _, found := range failedTest.FindAllStringSubmatch(first.output, -1) {
		if t.run(env, found[1], false).failed {
			t.skip = append(t.skip, found[1])
		}
	}
	if again := t.run(env, "", false); again.failed && again.test == "" {
		return fmt.Errorf("no test is named:\n%s", again.output)
	}
	return nil
}

// passes says whether a test passes alone and without a mutant, which it has to do once.
func (t *tests) passes(test string) bool {
	if _, known := t.passed.Load(test); known {
		return true
	}
	if cmp.Or(t.unmutated, t).run("", test, true).failed {
		return false
	}
	t.passed.Store(test, true)
	return true
}

// try runs the tests against a mutant. A test that fails or hangs must do so again, and pass
// without the mutant; if it does not, it is in doubt. Then the rest is run without it, or with more
// time. The test that noticed a mutant is "(no test)" if a run ended without one, as it does when
// the process crashes.
func (t *tests) try(env string) (status, test string, uncertain []string) {
	rest := *t
	for range 4 {
		o := rest.run(env, "", true)
		if !o.failed {
			return survived, "", uncertain
		}
		status, again := killed, outcome{}
		if o.hung {
			status = hung
		}
		if o.test == "" {
			again = rest.run(env, "", true)
			o.test = "(no test)"
		} else if again = t.run(env, o.test, true); again.failed {
			again.failed = t.passes(o.test)
		}
		if again.failed {
			return status, o.test, uncertain
		}
		uncertain = append(uncertain, o.test)
		if o.hung {
			rest.patience = 2 * max(rest.patience, 3)
		} else if o.test != "(no test)" {
			rest.skip = append(slices.Clone(rest.skip), o.test)
		}
	}
	return survived, "", uncertain
}
