// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the list of slow tests into docs/reliability.md")

// reliability is the page that says which test shows which promise, and which tests are slow.
const reliability = root + "/docs/reliability.md"

// function is a function of a test file.
type function struct {
	folder, name, doc string
	slow              []string // the reasons that it gives to redistest.Slow, or the names of constants that hold them
	soaks             bool     // the function calls locktest.Soak
}

// functions returns all functions of the test files of all modules.
func functions(tb testing.TB) (all []function) {
	tb.Helper()
	constants := make(map[string]string) // texts by folder and name
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				all = append(all, newFunction(filepath.ToSlash(folder), d))
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && len(v.Values) == 1 {
						constants[filepath.ToSlash(folder)+" "+v.Names[0].Name] = textOf(v.Values[0])
					}
				}
			}
		}
		return err
	})
	require.NoError(tb, err)
	for _, f := range all {
		for i, why := range f.slow {
			f.slow[i] = cmp.Or(constants[f.folder+" "+why], why)
		}
	}
	require.NotEmpty(tb, all)
	return all
}

func newFunction(folder string, f *ast.FuncDecl) function {
	made := function{folder: folder, name: f.Name.Name, doc: f.Doc.Text()}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, _ := call.Fun.(*ast.SelectorExpr)
		switch {
		case method == nil:
		case method.Sel.Name == "Soak":
			made.soaks = true
		case method.Sel.Name == "Slow" && len(call.Args) == 2:
			made.slow = append(made.slow, textOf(call.Args[1]))
		}
		return true
	})
	return made
}

// textOf returns a constant text, or the name of a constant.
func textOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// shows is a row of the page's tables of promises: the promise, a test, and the folder of its package.
var shows = regexp.MustCompile("(?m)^\\| (P\\d+) \\| `(Test\\w+)` \\| `([\\w/.]+)` \\|$")

// Every promise of every kind has a test that make test runs, and that names the promise in its comment.
func TestEveryPromiseOfEveryKindHasAQuickTest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(reliability)
	require.NoError(t, err)
	all := functions(t)
	_, promises, _ := strings.Cut(string(page), "\n## Promises\n")
	promises, _, _ = strings.Cut(promises, "\n## ")
	kinds := strings.Split(promises, "\n### ")[1:]
	require.Len(t, kinds, 10)
	for _, kind := range kinds {
		name, rows, _ := strings.Cut(kind, "\n")
		shown := make(map[string]bool)
		for _, row := range shows.FindAllStringSubmatch(rows, -1) {
			promise, test, folder := row[1], row[2], row[3]
			shown[promise] = true
			at := slices.IndexFunc(all, func(f function) bool { return f.name == test && f.folder == folder })
			if assert.GreaterOrEqual(t, at, 0, "%s: there is no %s in %s", name, test, folder) {
				f := all[at]
				assert.Empty(t, f.slow, "%s: make test does not run %s", name, test)
				assert.False(t, f.soaks, "%s: make test does not run %s", name, test)
				assert.Regexp(t, `\b`+promise+`\b`, f.doc, "%s: the comment of %s does not name %s", name, test, promise)
			}
		}
		for i := range 10 {
			promise := fmt.Sprint("P", i+1)
			assert.True(t, shown[promise] || strings.Contains(rows, "\n| "+promise+" | does not apply: "), "%s: no test shows %s", name, promise)
		}
	}
}

// Every test that the page of the promises of shards names is there.
func TestEveryPromiseOfShardsHasItsTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(root + "/docs/internals/shards-promises.md")
	require.NoError(t, err)
	known := make(map[string]bool)
	for _, f := range functions(t) {
		known[f.name] = true
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, name := range named {
		assert.True(t, known[name[1]], "there is no %s", name[1])
	}
}

// The page lists every test that waits for real time, with the reason that the test itself gives.
func TestEverySlowTestIsListedWithItsReason(t *testing.T) {
	t.Parallel()
	const begins, ends = "<!-- written by go test ./surface -update: begin -->\n", "<!-- end -->"
	var rows []string
	for _, f := range functions(t) {
		for _, why := range f.slow {
			if !strings.Contains(why, " ") { // a variable
				why = "what its cases say, each for itself"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s |\n", f.folder, f.name, why))
		}
	}
	slices.SortFunc(rows, cmp.Compare[string])
	want := "| package | test, or what its tests call | what it waits for |\n|---|---|---|\n" + strings.Join(rows, "")
	page, err := os.ReadFile(reliability)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), begins)
	require.True(t, ok, "no %q", begins)
	got, after, ok := strings.Cut(rest, ends)
	require.True(t, ok, "no %q", ends)
	if *update {
		require.NoError(t, os.WriteFile(reliability, []byte(before+begins+want+ends+after), 0o600))
		return
	}
	require.Equal(t, want, got, "go test ./surface -run TestEverySlowTestIsListedWithItsReason -update writes it")
}
