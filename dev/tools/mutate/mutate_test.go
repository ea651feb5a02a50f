// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/dev/tools/mutate/worker"
)

// A row is found wherever its function is, as long as its text stands there once. A row whose text is gone tests nothing: the list has to
// follow it.
func TestEachRowOfTheListIsThere(t *testing.T) {
	t.Parallel()
	_, list, err := readList("mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, m := range list {
		if seen[m.key()] {
			t.Errorf("twice: %v", m)
		}
		seen[m.key()] = true
		s, err := readSource("../../..", m.File)
		if err == nil {
			_, err = s.apply(m)
		}
		if err != nil {
			t.Errorf("%v: %v", err, m)
		}
	}
}

func TestMutantIsFoundByTheTextInItsFunction(t *testing.T) {
	t.Parallel()
	const before = "package p\n\nfunc (x *T[K]) f() {\n\tif a {\n\t\treturn\n\t}\n\tif b {\n\t\treturn\n\t}\n}\n"
	s, err := parseSource("x.go", before)
	if err != nil {
		t.Fatal(err)
	}
	m := s.row("x.go", "T.f", strings.LastIndex(before, "return"), "return", "")
	if want := (mutant{File: "x.go", Function: "T.f", Text: "if b { return", New: "if b {"}); m != want {
		t.Errorf("got %q, want %q", m, want)
	}
	if read, err := parseMutant(m.String()); err != nil || read != m {
		t.Errorf("read %q and %v, want %q", read, err, m)
	}
	for text, want := range map[string]string{
		before: strings.Replace(before, "if b {\n\t\treturn\n", "if b {\n", 1),
		"package p\nfunc g() { if b { return } }\nfunc (x T[K]) f() { if b {\n return } }\n": "package p\nfunc g() { if b { return } }\nfunc (x T[K]) f() { if b { } }\n",
		"package p\nfunc (T) f() {}\n":                                   "",
		"package p\nfunc (T) f() { if b { return }; if b { return } }\n": "",
		"package p\nfunc f() { if b { return } }\n":                      "",
	} {
		s, err := parseSource("x.go", text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.apply(m); got != want || errors.Is(err, errGone) != (want == "") {
			t.Errorf("%q became %q and %v, want %q", text, got, err, want)
		}
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
		for _, at := range luaSites(line) {
			got = append(got, at.old+":"+at.new)
			if !strings.HasPrefix(line[at.at:], at.old) {
				t.Errorf("%q: no %q at %d", line, at.old, at.at)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
}

// Whatever the hash says, n samples that begin at each of n places have each place once.
func TestSampleTakesEachNthPlaceOfAnOperator(t *testing.T) {
	t.Parallel()
	s, err := parseSource("x.go", "package p\n\nfunc f() {\n\tif a < b && !c {\n\t\tn++\n\t\tg(a + b)\n\t}\n\tif a < c || c {\n\t\tbreak\n\t}\n\tn = a < d\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	sites := s.sites()["f"]
	count := make(map[string]int)
	for _, at := range sites {
		count[at.operator+" "+at.old]++
	}
	for name, want := range map[string]int{"boundary <": 3, "negation <": 3, "logical &&": 1, "logical ||": 1, "not !": 1, "step ++": 1, "call g(a + b)": 1, "arithmetic +": 1, "loop break": 1} {
		if count[name] != want {
			t.Errorf("%d of %s, want %d", count[name], name, want)
		}
	}
	if all := chosen("x.go", "f", sites, 1); len(all) != len(sites) {
		t.Errorf("%d of %d places are each first one", len(all), len(sites))
	}
	third := 0
	for _, at := range chosen("x.go", "f", sites, 3) {
		if at.operator == "boundary" {
			third++
		}
	}
	if third != 1 {
		t.Errorf("%d of three places are each third one", third)
	}
}

// A verdict has one line, whatever the number of stages; a mutant that no cell notices any more is an error, and so it is by name.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	list, results, verdicts := filepath.Join(dir, "list"), filepath.Join(dir, "results"), filepath.Join(dir, "verdicts")
	rows := []string{"a.go\tf\tx\ty", "a.go\tg\tx\ty", "a.go\th\tx\ty\tit is the same", "a.go\ti\tx\ty", "a.go\tj\tx\ty"}
	for _, run := range []struct{ results, want, escaped string }{
		{
			"survived\ta\t-\t1\t" + rows[0] + "\nkilled\ttest/suite\tT\t1\t" + rows[0] + "\nunreached\ta\t-\t0\t" + rows[1] + "\nhung\ta\tL\t1\t" + rows[3],
			"killed\ttest/suite\tT\t-\t" + rows[0] + "\nunreached\t-\t-\t-\t" + rows[1] + "\nequivalent\t-\t-\t-\ta.go\th\tx\ty\nhung\ta\tL\t-\t" + rows[3] + "\n", "",
		},
		{
			"survived\ta\t-\t1\t" + rows[0] + "\nunreached\ttest/suite\t-\t1\t" + rows[0] + "\nkilled\ta\tT\t1\t" + rows[1],
			"survived\t-\t-\t-\t" + rows[0] + "\nkilled\ta\tT\t-\t" + rows[1] + "\nequivalent\t-\t-\t-\ta.go\th\tx\ty\nhung\ta\tL\t-\t" + rows[3] + "\n", "{a.go f x y }",
		},
	} {
		if err := errors.Join(write(list, []byte(strings.Join(rows, "\n")+"\n")), write(results, []byte(run.results))); err != nil {
			t.Fatal(err)
		}
		err := keep(list, results, verdicts)
		if (err != nil) != (run.escaped != "") {
			t.Errorf("%v, want %q", err, run.escaped)
		}
		if got, err := os.ReadFile(verdicts); err != nil || string(got) != run.want {
			t.Errorf("got %v\n%swant\n%s", err, got, run.want)
		}
	}
}

// library is what the runner tries mutants of here. Its tests lead to each result.
var library = map[string]string{
	"go.mod": "module github.com/signalbox-go/signalbox\n\ngo 1.25.0\n",
	"p/p.go": `package p

const limit = 2 * 3

var count int

func Less(a, b int) bool { return a < b }

func Loop(n int) (sum int) {
	for i := 0; i < n; i++ {
		sum += i
	}
	return sum
}

func Deep(n int) int {
	found := make(chan int)
	go func() { found <- []int{7}[n+0] }()
	return <-found
}

func Limit() int { return limit }

func Count() { count += 0 }

func Unused() int { return 1 + 1 }
`,
	"p/p_test.go": `package p

import "testing"

func check(t *testing.T, ok bool) {
	t.Helper()
	if !ok {
		t.Error("wrong")
	}
}

func TestLess(t *testing.T) {
	t.Parallel()
	check(t, Less(1, 2) && !Less(2, 1))
}

func TestMore(t *testing.T) { check(t, Less(3, 4)) }

func TestLoop(t *testing.T) { check(t, Loop(3) == 3) }

func TestDeep(t *testing.T) { check(t, Deep(0) == 7) }

func TestLimit(t *testing.T) { check(t, Limit() == 6) }

func TestCount(t *testing.T) {
	Count()
	check(t, count == 0)
}

func TestAlwaysFails(t *testing.T) { check(t, Less(1, 0)) }
`,
	"root.go": "package signalbox\n\nfunc Two() int { return 1 + 1 }\n",
	"root_test.go": `package signalbox

import "testing"

func TestTwo(t *testing.T) {
	if Two() != 2 {
		t.Error("wrong")
	}
}
`,
	"scripts/hello_test.go": `package scripts

import (
	"strings"
	"testing"
)

var hello = load("session/hello", 1)

func TestReply(t *testing.T) {
	text := hello.Source
	if /* runs text */ !strings.Contains(text, "return {1, now, limit, policy, 1}") {
		t.Error(text)
	}
}

func TestDigestIsOfTheFile(t *testing.T) {
	if hello.SHA1 != digestOf("session/hello", 1) {
		t.Error(hello.SHA1)
	}
}
`,
}

// Each result is reported of a mutant that has it, from one process as far as that goes.
func TestRunnerReportsEachResult(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range library {
		if err := write(filepath.Join(root, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pattern := range []string{"scripts.go", "compose.go", "constants.lua", "testdata/digests.txt", "*/*.lua", "parts/*/*.lua"} {
		files, err := filepath.Glob(filepath.Join("../../../scripts", pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil {
				err = write(filepath.Join(root, strings.TrimPrefix(filepath.ToSlash(file), "../../../")), text)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const hello = "scripts/session/hello.v1.lua"
	wants := map[mutant]string{
		{File: "root.go", Function: "Two", Text: "1 + 1", New: "1 - 1"}:         worker.Killed,
		{Function: "Less", Text: "a < b", New: "a > b"}:                         worker.Killed,
		{Function: "Less", Text: "a < b", New: "a <= b"}:                        worker.Survived,
		{Function: "Less", Text: "a < b", New: "a + b"}:                         broken,
		{Function: "Less", Text: "c < b", New: "c > b"}:                         gone,
		{Function: "Loop", Text: "i++", New: "i--"}:                             worker.Hung,
		{Function: "Deep", Text: "n+0", New: "n+1"}:                             crashed,
		{Function: "Count", Text: "count += 0", New: "count += 1"}:              worker.Killed, // and spoils the process
		{Function: "Unused", Text: "1 + 1", New: "1 - 1"}:                       worker.Unreached,
		{Function: everywhere, Text: "limit = 2 * 3", New: "limit = 2 + 3"}:     worker.Killed,
		{Function: everywhere, Text: "limit = 2 * 3", New: "limit = 6"}:         worker.Survived,
		{Function: "Less", Text: "< b", New: "<= b", Reason: "nothing asks it"}: equivalent,

		{File: hello, Function: everywhere, Text: "policy, 1}", New: "policy, 2}"}:                            worker.Killed,
		{File: hello, Function: everywhere, Text: "return {0, now}", New: "return {1, now}"}:                  worker.Survived,
		{File: "scripts/queue/heartbeat.v1.lua", Function: everywhere, Text: "-- queue", New: "-- the queue"}: worker.Unreached,
	}
	var list []mutant
	for m := range wants {
		m.File = cmp.Or(m.File, "p/p.go")
		list = append(list, m)
	}
	names := []string{filepath.Join(root, "list"), filepath.Join(root, "results")}
	if err := writeList(names[0], "# a comment\n", list); err != nil {
		t.Fatal(err)
	}
	r := &runner{root: root, results: names[1], parallel: 1, onlyOwn: true, patience: time.Minute}
	r.hooks = append(slices.Clone(hooks[:3]), hook{"scripts/hello_test.go", "/* runs text */", "zz.UsedText(text);"})
	if err := r.run(names[0]); err != nil {
		t.Fatal(err)
	}
	found, err := readResults(names[1])
	if err != nil {
		t.Fatal(err)
	}
	for m, want := range wants {
		m.File = cmp.Or(m.File, "p/p.go")
		if got := final(found[m.key()]).status; got != want && want != equivalent {
			t.Errorf("%s, want %s: %v", got, want, m)
		}
	}
	var text strings.Builder
	if err := summarize(&text, names[0], names[1]); err != nil {
		t.Fatal(err)
	}
	if row := "| p | 5 | 3 | 1 | 2 | 0 | 62.5 % |"; !strings.Contains(text.String(), row) {
		t.Errorf("no %q in\n%s", row, text.String())
	}
	lines, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := r.run(names[0]); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(names[1]); err != nil || string(again) != string(lines) {
		t.Errorf("a second run tried mutants again, error %v", err)
	}
	less := mutant{File: "p/p.go", Function: "Less", Text: "a < b", New: "a > b"}
	if err := writeList(names[0], "", []mutant{less}); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"TestLess", "TestMore"} { // each is the first one if it was known to kill it
		r.results, r.verdicts = filepath.Join(root, known), filepath.Join(root, "verdicts")
		if err := write(r.verdicts, []byte(result{worker.Killed, "p", known, "", less.key()}.String())); err != nil {
			t.Fatal(err)
		}
		if err := r.run(names[0]); err != nil {
			t.Fatal(err)
		}
		found, err := readResults(r.results)
		if got := final(found[less.key()]); err != nil || got.cell != known {
			t.Errorf("%v, error %v, want the cell %s first", got, err, known)
		}
	}
}
