// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// replacements is what gremlins v0.6.0 does to each token (its internal/engine/mappings.go). Its
// report names the kind and the position alone.
var replacements = map[string]map[string]string{
	"ARITHMETIC_BASE":         {"+": "-", "*": "/", "/": "*", "%": "*", "-": "+"},
	"CONDITIONALS_BOUNDARY":   {">=": ">", ">": ">=", "<=": "<", "<": "<="},
	"CONDITIONALS_NEGATION":   {"==": "!=", ">=": "<", ">": "<=", "<=": ">", "<": ">=", "!=": "=="},
	"INCREMENT_DECREMENT":     {"--": "++", "++": "--"},
	"INVERT_ASSIGNMENTS":      {"+=": "-=", "*=": "/=", "/=": "*=", "-=": "+="},
	"INVERT_BITWISE":          {"&": "|", "|": "&", "^": "&", "&^": "&", "<<": ">>", ">>": "<<"},
	"INVERT_BWASSIGN":         {"&=": "|=", "|=": "&=", "^=": "&=", "&^=": "&=", "<<=": ">>=", ">>=": "<<="},
	"INVERT_LOGICAL":          {"&&": "||", "||": "&&"},
	"INVERT_LOOPCTRL":         {"break": "continue", "continue": "break"},
	"INVERT_NEGATIVES":        {"-": "+"},
	"REMOVE_SELF_ASSIGNMENTS": {"+=": "=", "&=": "=", "&^=": "=", "*=": "=", "|=": "=", "/=": "=", "%=": "=", "<<=": "=", ">>=": "=", "-=": "=", "^=": "="},
}

// enabled are the kinds that gremlins leaves out unless it is asked for them.
var enabled = []string{
	"--invert-assignments", "--invert-bitwise", "--invert-bwassign", "--invert-logical", "--invert-loopctrl", "--remove-self-assignments",
}

// kits are the packages that only tests import.
var kits = []string{"redistest", "wiretest", "locktest"}

// libraryFiles returns the files of the root module that are neither tests nor in kits, relative to
// root.
func libraryFiles(root string) ([]string, error) {
	out, err := command(root, "git", "ls-files").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	var files []string
	for file := range strings.FieldsSeq(string(out)) {
		first, _, _ := strings.Cut(file, "/")
		isKit := slices.Contains(kits, path.Base(path.Dir(file)))
		if isNested(root, file) || first == "docs" || isKit || strings.HasSuffix(file, "_test.go") || strings.HasPrefix(first, ".") {
			continue
		}
		files = append(files, file)
	}
	return files, nil
}

// isNested reports whether the file belongs to a module below root.
func isNested(root, file string) bool {
	for folder := path.Dir(file); folder != "."; folder = path.Dir(folder) {
		if _, err := os.Stat(filepath.Join(root, folder, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// goMutants asks gremlins for all mutants of the library. Gremlins runs all tests before it lists
// anything, so it is given a copy of the library without tests.
func goMutants(root, work string) ([]mutant, error) {
	files, err := libraryFiles(root)
	if err != nil {
		return nil, err
	}
	library, report := filepath.Join(work, "library"), filepath.Join(work, "gremlins.json")
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return nil, err
		}
		if err := write(filepath.Join(library, file), text); err != nil {
			return nil, err
		}
	}
	args := append([]string{"tool", "gremlins", "unleash", "--dry-run", "-o", report}, enabled...)
	if out, err := command(filepath.Join(root, "tools/mutate"), "go", append(args, library)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("gremlins: %w\n%s", err, out)
	}
	return readGremlins(library, report)
}

// readGremlins reads the report. Of two kinds that do the same at one position one remains.
func readGremlins(library, report string) ([]mutant, error) {
	text, err := os.ReadFile(report)
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Files []struct {
			Name      string `json:"file_name"`
			Mutations []struct {
				Type         string
				Line, Column int
			}
		}
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("%s: %w", report, err)
	}
	var list []mutant
	seen := make(map[string]bool)
	for _, file := range parsed.Files {
		source, err := os.ReadFile(filepath.Join(library, file.Name))
		if err != nil {
			return nil, err
		}
		lines := strings.Split(string(source), "\n")
		for _, r := range file.Mutations {
			line := lines[r.Line-1]
			m := mutant{File: file.Name, Line: r.Line, Kind: r.Type, Text: strings.TrimSpace(line)}
			m.Col = r.Column - strings.Index(line, m.Text)
			for old, changed := range replacements[m.Kind] {
				if strings.HasPrefix(line[r.Column-1:], old) && len(old) > len(m.Old) {
					m.Old, m.New = old, changed
				}
			}
			same := fmt.Sprint(m.File, m.Line, m.Col, m.New)
			if m.Old != "" && !seen[same] {
				seen[same] = true
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// checker type-checks packages with one file changed.
type checker struct {
	root    string
	exports map[string]string   // file of export data by import path
	files   map[string][]string // by folder, relative to root
}

func newChecker(root string) (*checker, error) {
	out, err := command(root, "go", "list", "-export", "-deps", "-json=ImportPath,Export,Dir,GoFiles", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	c := &checker{root: root, exports: make(map[string]string), files: make(map[string][]string)}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export, Dir string
			GoFiles                 []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return c, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		c.exports[p.ImportPath] = p.Export
		if dir, err := filepath.Rel(root, p.Dir); err == nil {
			c.files[filepath.ToSlash(dir)] = p.GoFiles
		}
	}
}

// compiles says whether the package of the mutant is valid Go with it.
func (c *checker) compiles(m mutant) bool {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range c.files[path.Dir(m.File)] {
		full := filepath.Join(c.root, path.Dir(m.File), name)
		text, err := os.ReadFile(full)
		if err != nil {
			return false
		}
		source := string(text)
		if name == path.Base(m.File) {
			if source, err = m.apply(source); err != nil {
				return false
			}
		}
		file, err := parser.ParseFile(set, full, source, parser.SkipObjectResolution)
		if err != nil {
			return false
		}
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) }
	config := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	_, err := config.Check(m.File, set, files, nil)
	return err == nil
}

// command is a command in a folder, outside of any workspace.
func command(dir, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// remove removes a folder of this program in the folder for temporary files.
func remove(dir string) { _ = os.RemoveAll(dir) }

func write(name string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
