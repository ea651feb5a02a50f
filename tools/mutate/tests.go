// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tests is a built test binary.
type tests struct {
	binary, folder string
	short, isRapid bool
	skip           []string
	usual          time.Duration // without a mutant
	patience       int           // how many times as long a run may take; 0 is 3
}

// with returns the same tests in another binary.
func (t *tests) with(binary string) *tests {
	other := *t
	other.binary = binary
	return &other
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
	hungTest   = regexp.MustCompile(`(?m)^\t((?:Test|Example|Fuzz)\S*) \(`)
)

// learnFlags finds out whether the tests know the flags of rapid.
func (t *tests) learnFlags() {
	out, _ := exec.Command(t.binary, "-h").CombinedOutput() // it exits with 2 in any case
	t.isRapid = bytes.Contains(out, []byte("-rapid.nofailfile"))
}

// run runs the tests, or only one of them, in their folder. Nothing of them outlives the run: they
// are a process group of their own, and what internal/redistest started ends with them.
func (t *tests) run(env, only string, failfast bool) outcome {
	limit := time.Duration(max(t.patience, 3))*t.usual + 30*time.Second
	if t.usual == 0 {
		limit = 10 * time.Minute
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
	} else if len(t.skip) > 0 {
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
	first := t.run(env, "", false)
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

// try runs the tests against a mutant. A test that fails or hangs must do so again, and pass
// without the mutant; if it does not, it is in doubt. Then the rest is run without it, or with more
// time. The test that noticed a mutant is "(no test)" if a run ended without one, as it does when
// the process crashes.
func (t *tests) try(env string) (status, test string, doubts []string) {
	rest := *t
	for range 4 {
		o := rest.run(env, "", true)
		if !o.failed {
			return survived, "", doubts
		}
		status, again := killed, outcome{}
		if o.hung {
			status = hung
		}
		if o.test == "" {
			again = rest.run(env, "", true)
			o.test = "(no test)"
		} else if again = t.run(env, o.test, true); again.failed {
			again.failed = !t.run("", o.test, true).failed
		}
		if again.failed {
			return status, o.test, doubts
		}
		doubts = append(doubts, o.test)
		if o.hung {
			rest.patience = 2 * max(rest.patience, 3)
		} else if o.test != "(no test)" {
			rest.skip = append(slices.Clone(rest.skip), o.test)
		}
	}
	return survived, "", doubts
}
