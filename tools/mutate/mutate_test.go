// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func anyMutant(mutant) bool { return true }

func TestSampleOfOneSeedIsAlwaysTheSame(t *testing.T) {
	t.Parallel()
	var all []mutant
	for i := range 200 {
		all = append(all, mutant{File: fmt.Sprintf("p%d/x.go", i%7), Line: i})
	}
	first := sample(all, mutant.group, 1, 50, 3, anyMutant)
	slices.Reverse(all)
	again := sample(all, mutant.group, 1, 50, 3, anyMutant)
	if !slices.Equal(first, again) {
		t.Error("the order of the candidates changed the sample")
	}
	if other := sample(all, mutant.group, 2, 50, 3, anyMutant); slices.Equal(first, other) {
		t.Error("the seed did not change the sample")
	}
}

func TestSampleTakesTheLeastOfEachGroup(t *testing.T) {
	t.Parallel()
	all := []mutant{{File: "small/x.go", Line: 1}, {File: "small/x.go", Line: 2}, {File: "small/x.go", Line: 3}}
	for i := range 1000 {
		all = append(all, mutant{File: "large/x.go", Line: i})
	}
	count := make(map[string]int)
	odd := func(m mutant) bool { return m.Line%2 == 1 }
	for _, m := range sample(all, mutant.group, 1, 100, 3, odd) {
		count[m.group()]++
		if !odd(m) {
			t.Errorf("%v does not compile", m)
		}
	}
	if count["small"] != 2 || count["large"] != 100 {
		t.Errorf("%v, want the two of small that compile and 100 of large", count)
	}
}

func TestMutantIsFoundAfterItsLineMoved(t *testing.T) {
	t.Parallel()
	m := mutant{File: "x.go", Line: 1, Col: 6, Kind: "K", Old: "<", New: "<=", Text: "if a < b {"}
	read, err := parseMutant(m.String())
	if err != nil || read != m {
		t.Errorf("read %v and %v, want %v", read, err, m)
	}
	for source, want := range map[string]string{
		"if a < b {\n":                       "if a <= b {\n",
		"\n\n\tif a < b {\n":                 "\n\n\tif a <= b {\n",
		"x\n\tif a < b {\n\n\tif a < b {\n":  "x\n\tif a <= b {\n\n\tif a < b {\n",
		"if a > b {\n\t\tif a < b {\n\t\t}}": "if a > b {\n\t\tif a <= b {\n\t\t}}",
	} {
		if got, err := m.apply(source); err != nil || got != want {
			t.Errorf("%q became %q and %v, want %q", source, got, err, want)
		}
	}
	if _, err := m.apply("if a < c {\n"); err == nil {
		t.Error("a mutant whose line is gone was found")
	}
}

func TestLuaMutantsLeaveCommentsAndNamesAlone(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"-- 0 and 1 < 2":                         "",
		"local name, session = KEYS[1], ARGV[1]": "",
		"local n = -1 - x -- or 1":               "-1:-2 -:+",
		"if not a and b == 'x' then":             "not : and:or ==:~= 'x':'x!'",
		"while i <= #page do":                    "<=:< <=:>",
		"local s = string.sub(t, 1, 16)":         "1:2",
		"redis.call('DEL', key) -- gone":         "redis.call('DEL', key):",
		"gone[#gone + 1] = ticket":               "+:- 1:2 gone[#gone + 1] = ticket:",
		"a, b = {}, {":                           "",
		"return nil":                             "return nil:",
		"local function f()":                     "",
	} {
		var got []string
		for _, m := range mutateLua("x.lua", line) {
			got = append(got, m.Old+":"+m.New)
			if changed, err := m.apply(line); err != nil || changed == line {
				t.Errorf("%q became %q and %v by %v", line, changed, err, m)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
}

func TestSwitchesKeepTheFunctionAndAddItsMutants(t *testing.T) {
	t.Parallel()
	const source = `package p

const limit = 2 * 3

func less(a, b int) (bool, error) { return a < b, nil }

func both(a, b bool) {
	if a && b {
		return
	}
}
`
	list := []mutant{
		{Line: 5, Col: 46, Old: "<", New: "<=", Text: "func less(a, b int) (bool, error) { return a < b, nil }"},
		{Line: 8, Col: 6, Old: "&&", New: "||", Text: "if a && b {"},
		{Line: 3, Col: 17, Old: "*", New: "/", Text: "const limit = 2 * 3"},
		{Line: 9, Col: 1, Old: "x", New: "y", Text: "is gone"},
	}
	text, pkg, left, err := addSwitches(source, list, []int{0, 1, 2, 3})
	if err != nil || pkg != "p" || !slices.Equal(left, []int{2}) {
		t.Fatalf("package %s, left %v, error %v", pkg, left, err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", text, 0); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, part := range []string{"case 1: { return a <= b, nil }", "case 2: {\n\tif a || b {", "}\n return a < b, nil }"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

func TestOutcomeNamesTheTestThatFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		output   string
		isKilled bool
		isHung   bool
		test     string
	}{
		{output: "--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/b (0.1s)\n--- FAIL: TestC (0s)\nFAIL\n", test: "TestA"},
		{output: "panic: nil\ngoroutine 1\n"},
		{output: "panic: test timed out after 1s\n\trunning tests:\n\t\tTestB/x (1s)\n\t\tTestB (2s)\n\t\tTestA (0s)\n", isHung: true, test: "TestA|TestB"},
		{isKilled: true, isHung: true},
	} {
		o := outcome{failed: true, hung: c.isKilled, output: c.output}
		o.name()
		if o.test != c.test || o.hung != c.isHung {
			t.Errorf("%q: %q and %v, want %q and %v", c.output, o.test, o.hung, c.test, c.isHung)
		}
	}
}

// fake returns a test binary that runs a line of shell.
func fake(t *testing.T, dir, name, script string) string {
	t.Helper()
	target, err := filepath.Abs("testdata/fake.sh")
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, name)
	if err := errors.Join(os.Symlink(target, name), os.WriteFile(name+".case", []byte(script+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestMutantIsKilledOnlyIfTheSameTestFailsAgain(t *testing.T) {
	t.Parallel()
	const failure = `{ echo '--- FAIL: TestA (0s)'; exit 1; }`
	for _, c := range []struct{ name, script, want, test string }{
		{name: "no failure", script: "exit 0", want: survived},
		{name: "with the mutant alone", script: `[ -z "$` + envMutant + `" ] || ` + failure, want: killed, test: "TestA"},
		{name: "without it too", script: `case "$*" in *skip*) exit 0;; esac; ` + failure, want: survived},
		{name: "once", script: "mkdir once || exit 0; " + failure, want: survived},
		{name: "no name", script: "exit 2", want: killed, test: "(no test)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tests := &tests{binary: fake(t, dir, "tests", c.script), folder: dir, passed: new(sync.Map), usual: time.Millisecond}
			if status, test, uncertain := tests.try(envMutant + "=1"); status != c.want || test != c.test {
				t.Errorf("%s by %q, in doubt %v; want %s by %q", status, test, uncertain, c.want, c.test)
			}
		})
	}
}

func TestMutantBuiltAloneIsComparedWithTheOtherBinary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := fake(t, dir, "good", "exit 0"), fake(t, dir, "bad", "echo '--- FAIL: TestA (0s)'; exit 1")
	tests := &tests{binary: good, folder: dir, passed: new(sync.Map), usual: time.Millisecond}
	if status, test, _ := tests.with(bad).try(""); status != killed || test != "TestA" {
		t.Errorf("%s by %q, want killed by TestA", status, test)
	}
}

func TestSummaryCountsEachMutantOfTheListOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list := []mutant{{File: "a/x.go", Line: 1}, {File: "a/x.go", Line: 2}, {File: "x.go", Line: 3}, {File: "scripts/a/b.lua", Line: 4}}
	names := []string{filepath.Join(dir, "list"), filepath.Join(dir, "results")}
	if err := writeList(names[0], "# a comment\n", list); err != nil {
		t.Fatal(err)
	}
	var results string
	for i, status := range []string{killed, survived, hung} {
		results += result{key: list[i].key(), status: status}.String() + "\n"
	}
	if err := os.WriteFile(names[1], []byte(results), 0o600); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := summarize(&text, names[0], names[1]); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| a | 1 | 0 | 1 | 0 | 0 | 50.0 % |", "| (root) | 0 | 1 | 0 | 0 | 0 | 100.0 % |",
		"| **all of Go** | 1 | 1 | 1 | 0 | 0 | 66.7 % |", "| **all of Lua** | 0 | 0 | 0 | 0 | 1 | - |",
	} {
		if !strings.Contains(text.String(), row) {
			t.Errorf("no %q in\n%s", row, text.String())
		}
	}
}
