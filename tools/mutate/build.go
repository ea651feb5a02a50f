// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// The environment by which a built test binary learns which mutant it has: the number of a Go
// mutant, or a folder of changed scripts.
const (
	envMutant  = "SIGNALBOX_MUTANT"
	envScripts = "SIGNALBOX_MUTANT_SCRIPTS"
)

// switchFile declares the variable in each package that has mutants.
const switchFile = `package %s

import (
	"os"
	"strconv"
)

var zzMutant, _ = strconv.Atoi(os.Getenv("` + envMutant + `"))
`

// scriptsFile reads scripts and parts from the folder of the mutant, if they are there. The digest of
// a mutated script is that of its text, so that a client finds it by EVALSHA as it finds a real one;
// but not where Go refuses to compute one.
const scriptsFile = `package scripts

import (
	"crypto/sha1"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func zzReadFile(path string) ([]byte, error) {
	if dir := os.Getenv("` + envScripts + `"); dir != "" {
		if text, err := os.ReadFile(filepath.Join(dir, "scripts", path)); err == nil {
			return text, nil
		}
	}
	return files.ReadFile(path)
}

func zzDigest(source, digest string) string {
	if os.Getenv("` + envScripts + `") == "" || strings.Contains(os.Getenv("GODEBUG"), "fips140=only") {
		return digest
	}
	return fmt.Sprintf("%x", sha1.Sum([]byte(source)))
}
`

// scriptsHooks are what the scripts' own loader calls instead.
var scriptsHooks = [][2]string{
	{`text, err := files.ReadFile(`, `text, err := zzReadFile(`},
	{`SHA1: digestOf(name, version)}`, `SHA1: zzDigest(source, digestOf(name, version))}`},
}

// overlay is what go build reads instead of the files of the checkout.
type overlay struct {
	root, dir string
	Replace   map[string]string
}

func newOverlay(root, dir string) *overlay {
	return &overlay{root: root, dir: dir, Replace: make(map[string]string)}
}

// put has go build read text where it would read file, which need not exist.
func (o *overlay) put(file, text string) error {
	copied := filepath.Join(o.dir, "overlay", file)
	o.Replace[filepath.Join(o.root, file)] = copied
	return write(copied, []byte(text))
}

func (o *overlay) config() string { return filepath.Join(o.dir, "overlay.json") }

// save writes what build passes to go build, when all files are put.
func (o *overlay) save() error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return write(o.config(), text)
}

// build builds the tests of a package, by its folder, and returns the binary.
func (o *overlay) build(dir string) (string, error) {
	module := "."
	if rest, isTest := strings.CutPrefix(dir, "test/"); isTest {
		module, dir = "test", rest
	}
	binary := filepath.Join(o.dir, "bin", module, dir, "tests")
	cmd := command(filepath.Join(o.root, module), "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+o.config(), "-o="+binary, "./"+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", dir, err, out)
	}
	if _, err := os.Stat(binary); errors.Is(err, os.ErrNotExist) {
		return "", nil // a package without tests
	}
	return binary, nil
}

// switched builds an overlay with every mutant of the list that stands in a function, all of them
// switched off, and the hooks of the scripts. It returns the mutants that need a build of their
// own.
func switched(root, dir string, list []mutant) (*overlay, []bool, error) {
	o := newOverlay(root, dir)
	byFile := make(map[string][]int)
	for i, m := range list {
		if !m.isLua() {
			byFile[m.File] = append(byFile[m.File], i)
		}
	}
	alone := make([]bool, len(list))
	for file, numbers := range byFile {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			continue // gone: so are its mutants
		}
		source, pkg, left, err := addSwitches(string(text), list, numbers)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, i := range left {
			alone[i] = true
		}
		if err := errors.Join(o.put(file, source), o.put(path.Join(path.Dir(file), "zz_mutant.go"), fmt.Sprintf(switchFile, pkg))); err != nil {
			return nil, nil, err
		}
	}
	const loader = "scripts/scripts.go"
	text, err := os.ReadFile(filepath.Join(root, loader))
	if err != nil {
		return nil, nil, err
	}
	source := string(text)
	if own := o.Replace[filepath.Join(root, loader)]; own != "" {
		if text, err = os.ReadFile(own); err != nil {
			return nil, nil, err
		}
		source = string(text)
	}
	for _, hook := range scriptsHooks {
		if !strings.Contains(source, hook[0]) {
			return nil, nil, fmt.Errorf("%s has no %q any more: change scriptsHooks", loader, hook[0])
		}
		source = strings.ReplaceAll(source, hook[0], hook[1])
	}
	return o, alone, errors.Join(o.put(loader, source), o.put("scripts/zz_scripts.go", scriptsFile), o.save())
}

// addSwitches puts a copy of the body of its function before that body for each mutant, which runs
// if the mutant is on. It returns the package's name, and the mutants that are in no function or in
// one with a label, which a copy would declare twice.
func addSwitches(source string, list []mutant, numbers []int) (text, pkg string, left []int, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil, err
	}
	at := func(p token.Pos) int { return int(p) - int(file.FileStart) }
	cases := make(map[*ast.FuncDecl]string)
	for _, i := range numbers {
		offset, err := list[i].locate(source)
		if err != nil {
			continue
		}
		f := functionAt(file, offset)
		if f == nil {
			left = append(left, i)
			continue
		}
		mutated, _ := list[i].apply(source)
		body := mutated[at(f.Body.Lbrace) : at(f.Body.Rbrace)+1+len(list[i].New)-len(list[i].Old)]
		end := "return"
		if f.Type.Results != nil {
			end = `panic("unreachable")`
		}
		cases[f] += fmt.Sprintf("case %d: %s\n%s\n", i+1, body, end)
	}
	functions := slices.SortedFunc(maps.Keys(cases), func(a, b *ast.FuncDecl) int { return int(b.Pos() - a.Pos()) })
	for _, f := range functions {
		start := at(f.Body.Lbrace) + 1
		source = source[:start] + "switch zzMutant {\n" + cases[f] + "}\n" + source[start:]
	}
	return source, file.Name.Name, left, nil
}

func functionAt(file *ast.File, offset int) *ast.FuncDecl {
	for _, d := range file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.Body == nil || offset <= int(f.Body.Lbrace-file.FileStart) || offset >= int(f.Body.Rbrace-file.FileStart) {
			continue
		}
		hasLabel := false
		ast.Inspect(f.Body, func(n ast.Node) bool {
			_, isLabel := n.(*ast.LabeledStmt)
			hasLabel = hasLabel || isLabel
			return true
		})
		if hasLabel {
			return nil
		}
		return f
	}
	return nil
}
