// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// workerFile is the package that the library and its tests get: see there.
//
//go:embed worker/worker.go
var workerFile string

const (
	workerFolder = "internal/zzmutant"
	workerImport = `import zz "github.com/signalbox-go/signalbox/` + workerFolder + `"`
)

// scriptsFile composes all scripts again when a text changes. Some are made while tests run, so they are kept by weak pointers. The
// digest of a changed script is that of its text: a client finds it by EVALSHA as it finds a real one.
const scriptsFile = `package scripts

import (
	"crypto/sha1"
	"fmt"
	"sync"
	"weak"
)

` + workerImport + `

var zzAll sync.Map

func init() { zz.ChangeScripts = zzChange }

func zzChange() (changed []string) {
	zzAll.Range(func(key, _ any) bool {
		s := key.(weak.Pointer[Script]).Value()
		if s == nil {
			zzAll.Delete(key)
			return true
		}
		if source := compose(readFile(scriptPath(s.Name, s.Version))); source != s.Source {
			s.Source, changed = source, append(changed, s.Name)
			zzDigest(s)
		}
		return true
	})
	return changed
}

func zzNote(s *Script) *Script {
	zzAll.Store(weak.Make(s), true)
	zzDigest(s)
	return s
}

func zzDigest(s *Script) {
	s.SHA1 = digestOf(s.Name, s.Version)
	if _, isChanged := zz.Text("", nil); isChanged {
		s.SHA1 = fmt.Sprintf("%x", sha1.Sum([]byte(s.Source)))
	}
}

func zzReadFile(path string) ([]byte, error) {
	text, err := files.ReadFile(path)
	text, _ = zz.Text(path, text)
	return text, err
}
`

// hook is another text that a file gets.
type hook struct{ file, old, changed string }

// hooks are where scripts are read and run, and what is remembered of their texts.
var hooks = []hook{
	{"scripts/scripts.go", "text, err := files.ReadFile(", "text, err := zzReadFile("},
	{"scripts/scripts.go", "SHA1: digestOf(name, version)}", "SHA1: digestOf(name, version)}\n\treturn zzNote(s)"},
	{"scripts/scripts.go", "return &Script{Name: name,", "s := &Script{Name: name,"},
	{"internal/wire/runner.go", "return r.client.B().Evalsha()", "zz.Used(call.Script.Name)\n\treturn r.client.B().Evalsha()"},
	{"internal/wire/runner.go", "return r.client.B().Eval()", "zz.Used(call.Script.Name)\n\treturn r.client.B().Eval()"},
	{"internal/wire/denial.go", "var sources = sync.OnceValue(", "var _ sync.Mutex\nvar sources = zz.EachMutant("},
	{"internal/testing/locktest/soak.go", "var scriptsByText = sync.OnceValue(", "var _ sync.Mutex\nvar scriptsByText = zz.EachMutant("},
	{"test/suite/scripts_test.go", "words := []any{\"EVAL\", text, len(keys)}", "zz.UsedText(text)\n\twords := []any{\"EVAL\", text, len(keys)}"},
	{"scripts/kit_test.go", "digest, known := digestsOf.Load(text)", "zz.UsedText(text)\n\tdigest, known := digestsOf.Load(text)"},
}

// overlay is what go build reads instead of the files of the checkout: the library with all mutants of the list that stand in a
// function, each behind a switch.
type overlay struct {
	root, dir string
	Replace   map[string]string

	hooks     []hook
	isAlone   bool // a mutant without a switch is in it
	list      []mutant
	functions []int        // the number of the function that has the mutant, 0 for a script and outside of functions
	broken    map[int]bool // the mutants that do not build
	alone     map[int]bool // the mutants outside of functions
	gone      map[int]bool // the mutants whose text is gone
}

func newOverlay(root, dir string, hooks []hook, list []mutant) (*overlay, error) {
	o := &overlay{root: root, dir: dir, hooks: hooks, list: list, broken: make(map[int]bool)}
	return o, o.write()
}

// put has go build read text where it would read file, which need not exist.
func (o *overlay) put(file, text string) error {
	copied := filepath.Join(o.dir, "overlay", file+".txt")
	o.Replace[filepath.Join(o.root, file)] = copied
	return write(copied, []byte(text))
}

func (o *overlay) config() string { return filepath.Join(o.dir, "overlay.json") }

func (o *overlay) save() error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return write(o.config(), text)
}

// write writes everything but the tests.
func (o *overlay) write() error {
	o.Replace, o.alone, o.gone = make(map[string]string), make(map[int]bool), make(map[int]bool)
	o.functions = make([]int, len(o.list))
	byFile := make(map[string][]int)
	for _, hook := range o.hooks {
		byFile[hook.file] = nil
	}
	for i, m := range o.list {
		byFile[m.File] = append(byFile[m.File], i)
	}
	number := 0
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		s, err := readSource(o.root, file)
		if errors.Is(err, errGone) {
			s, err = source{}, nil
		}
		if err != nil {
			return err
		}
		text, err := o.addSwitches(s, file, byFile[file], &number)
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		if err := o.put(file, text); err != nil {
			return err
		}
	}
	return errors.Join(o.put("scripts/zz_scripts.go", scriptsFile), o.put(workerFolder+"/worker.go", workerFile), o.save())
}

// addSwitches returns the text of a file with a copy of the body of a function before that body for each mutant, which runs if the mutant
// is on. It is empty for a file that stays as it is. The compiler reports what is wrong with a copy as in a file zz<number>.go.
func (o *overlay) addSwitches(s source, file string, numbers []int, number *int) (string, error) {
	functions := s.functions()
	copies := make(map[string]string)
	for _, i := range numbers {
		m := o.list[i]
		mutated, err := s.apply(m)
		if err != nil {
			o.gone[i] = true
			continue
		}
		if m.isLua() {
			continue
		}
		f := functions[m.Function]
		from, _, _ := s.locate(m)
		if f == nil || hasLabel(f) || from+len(m.Text) <= s.at(f.Body.Lbrace) {
			o.alone[i] = true
			continue
		}
		o.functions[i] = -1 // until its function has a number, which does not depend on what is broken
		copies[m.Function] += ""
		if o.broken[i] {
			continue
		}
		end := "return"
		if f.Type.Results != nil {
			end = `panic("unreachable")`
		}
		body := mutated[s.at(f.Body.Lbrace) : s.at(f.Body.Rbrace)+1+len(mutated)-len(s.text)]
		copies[m.Function] += fmt.Sprintf("case %d:\n//line zz%d.go:1\n%s\n%s\n", i+1, i+1, body, end)
	}
	text := s.text
	names := slices.SortedFunc(maps.Keys(copies), func(a, b string) int { return int(functions[b].Pos() - functions[a].Pos()) })
	for _, name := range names {
		*number++
		for _, i := range numbers {
			if o.list[i].Function == name && o.functions[i] != 0 {
				o.functions[i] = *number
			}
		}
		start := s.at(functions[name].Body.Lbrace) + 1
		line := 1 + strings.Count(s.text[:start], "\n")
		text = fmt.Sprintf("%s\nswitch zz.On(%d) {\n%s}\n//line %s:%d\n%s", text[:start], *number, copies[name], path.Base(file), line, text[start:])
	}
	return o.addHooks(s, file, text)
}

// addHooks returns the text of a file with its hooks, and the import that these and switches need; "" if nothing was changed.
func (o *overlay) addHooks(s source, file, text string) (string, error) {
	for _, hook := range o.hooks {
		if hook.file != file {
			continue
		}
		if !strings.Contains(text, hook.old) {
			return "", fmt.Errorf("%s has no %q any more: change hooks", file, hook.old)
		}
		text = strings.ReplaceAll(text, hook.old, hook.changed)
	}
	if text == s.text || s.file == nil {
		return "", nil
	}
	if !strings.Contains(text, "zz.") {
		return text, nil
	}
	afterName := s.at(s.file.Name.End())
	return text[:afterName] + "; " + workerImport + text[afterName:], nil
}

// hasLabel reports whether a function has a label, which a copy would declare twice.
func hasLabel(f *ast.FuncDecl) (has bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		_, isLabel := n.(*ast.LabeledStmt)
		has = has || isLabel
		return true
	})
	return has
}

// with returns the overlay with a mutant that stands in no function.
func (o *overlay) with(i int) (*overlay, error) {
	own := &overlay{isAlone: true, hooks: o.hooks, root: o.root, dir: filepath.Join(o.dir, "alone", strconv.Itoa(i)), Replace: maps.Clone(o.Replace), list: o.list, broken: o.broken}
	own.alone, own.gone, own.functions = make(map[int]bool), make(map[int]bool), make([]int, len(o.list))
	s, err := readSource(o.root, o.list[i].File)
	if err != nil {
		return nil, err
	}
	mutated, err := s.apply(o.list[i])
	if err != nil {
		return nil, err
	}
	if s, err = parseSource(o.list[i].File, mutated); err != nil {
		return nil, err
	}
	var others []int
	number := len(o.list) + i // the numbers of functions do not matter: all cells run
	for n, m := range o.list {
		if m.File == o.list[i].File && !o.alone[n] {
			others = append(others, n)
		}
	}
	text, err := own.addSwitches(s, o.list[i].File, others, &number)
	if err != nil {
		return nil, err
	}
	if text == "" {
		text = mutated
	}
	return own, errors.Join(own.put(o.list[i].File, text), own.save())
}

// moduleOf returns the folder of the module that has a folder.
func (o *overlay) moduleOf(dir string) string {
	for module := dir; module != "."; module = path.Dir(module) {
		if _, err := os.Stat(filepath.Join(o.root, module, "go.mod")); err == nil {
			return module
		}
	}
	return "."
}

// cellsOf are calls in the tests of a folder that add many cells instead of that of one test.
var cellsOf = map[string]map[string]string{
	"test/suite": {
		"TestPromises": "for _, c := range cells([]string{virtual}) {\nzz.Cell(c.name(), c.run)\n}\n",
		"TestScripts":  "for _, cases := range dataFiles() {\nfor _, c := range cases {\nzz.Cell(c.name(), func(t *testing.T) { c.play(t, virtual) })\n}\n}\n",
	},
}

// putTests adds a file to the tests of a folder, or two, that names all tests, and the test that is run instead. It reports whether the
// folder has tests.
func (o *overlay) putTests(dir string) (bool, error) {
	p, err := build.ImportDir(filepath.Join(o.root, dir), 0)
	if err != nil {
		return false, err
	}
	calls := make(map[string]string) // by the name of the package
	for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
		s, err := readSource(o.root, path.Join(dir, name))
		if err != nil {
			return false, err
		}
		for _, test := range slices.Sorted(maps.Keys(s.functions())) {
			f := s.functions()[test]
			if f.Recv == nil && strings.HasPrefix(test, "Test") && test != "TestMain" && len(f.Type.Params.List) == 1 {
				add := fmt.Sprintf("zz.Cell(%q, %s)\n", test, test)
				calls[s.file.Name.Name] += cmp.Or(cellsOf[dir][test], add)
			}
		}
	}
	for pkg, add := range calls {
		text := fmt.Sprintf("package %s\n%s\nimport \"testing\"\nfunc init() {\n%s}\nfunc TestZZMutants(t *testing.T) { zz.Work(t) }\n", pkg, workerImport, add)
		if err := o.put(path.Join(dir, "zz_"+pkg+"_test.go"), text); err != nil {
			return false, err
		}
	}
	return len(calls) > 0, o.save()
}

var brokenAt = regexp.MustCompile(`\bzz(\d+)\.go:`)

// build builds the tests of a package, by its folder, and returns the binary, "" if it has no tests. Mutants that do not build
// are left out from then on.
func (o *overlay) build(dir string) (string, error) {
	for {
		if hasTests, err := o.putTests(dir); !hasTests {
			return "", err
		}
		module := o.moduleOf(dir)
		inModule, err := filepath.Rel(module, dir)
		if err != nil {
			return "", err
		}
		binary := filepath.Join(o.dir, "bin", strings.ReplaceAll(dir, "/", "-")+".test") // the root is "."
		cmd := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+o.config(), "-o="+binary, "./"+inModule)
		cmd.Dir, cmd.Env = filepath.Join(o.root, module), append(os.Environ(), "GOWORK=")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return binary, nil
		}
		found := brokenAt.FindAllStringSubmatch(string(out), -1)
		for _, match := range found {
			number, _ := strconv.Atoi(match[1])
			o.broken[number-1] = true
		}
		if len(found) == 0 || o.isAlone {
			return "", fmt.Errorf("%s: %w\n%s", dir, err, out)
		}
		if err := o.write(); err != nil {
			return "", err
		}
	}
}
