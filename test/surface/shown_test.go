// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
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

	"github.com/stretchr/testify/require"
)

// unshown has the names that no example uses, each with the reason why it is exported nevertheless.
const unshown = "testdata/unshown.txt"

// A reader learns a name from an example. What no example uses needs a reason, and a reason that nothing needs goes.
func TestEveryNameIsShownOrHasAReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(golden)
	require.NoError(t, err)
	reasons := readReasons(t)
	used := make(map[string]bool)
	shown := namesOfExamples(t)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	shownTypes := make(map[string]bool) // a type is shown by what returns, takes or has it
	for _, line := range lines {
		if name := nameOf(t, line); !name.isType && shown[name.key] {
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(line, -1) {
				shownTypes[name.path+"."+word] = true
			}
		}
	}
	for _, line := range lines {
		name := nameOf(t, line)
		if shown[name.key] || name.isType && shownTypes[name.key] {
			continue
		}
		found := false
		for pattern, match := range reasons {
			if match.MatchString(line) {
				used[pattern], found = true, true
			}
		}
		if !found {
			t.Errorf("no example uses %q: write one, or a reason in %s", line, unshown)
		}
	}
	for pattern := range reasons {
		if !used[pattern] {
			t.Errorf("%s has a reason for %q, and all such names are in examples", unshown, pattern)
		}
	}
}

// readReasons returns the patterns of the file: "pattern -- reason", where ** is any text.
func readReasons(tb testing.TB) map[string]*regexp.Regexp {
	tb.Helper()
	text, err := os.ReadFile(unshown)
	require.NoError(tb, err)
	reasons := make(map[string]*regexp.Regexp)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, reason, _ := strings.Cut(line, " -- ")
		require.NotEmpty(tb, strings.TrimSpace(reason), line)
		pattern = strings.TrimSpace(pattern)
		reasons[pattern] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*\*`, ".*") + `(\W|$)`)
	}
	return reasons
}

// exported is a line of the golden file.
type exported struct {
	path, key string // as namesOfExamples has it
	isType    bool
}

func nameOf(tb testing.TB, line string) exported {
	tb.Helper()
	path, declaration, _ := strings.Cut(line, ": ")
	path = "github.com/signalbox-go/" + path
	if m := regexp.MustCompile(`^(?:method|field) \(\*?\w+\) (\w+)`).FindStringSubmatch(declaration); m != nil {
		return exported{path, "." + m[1], false}
	}
	m := regexp.MustCompile(`^(const|func|type|var) (\w+)`).FindStringSubmatch(declaration)
	require.NotNil(tb, m, line)
	return exported{path, path + "." + m[2], m[1] == "type"}
}

// namesOfExamples returns the names that the examples of packages and the programs in the folder examples use: "path.Name" of what a
// package declares, and ".Name" of methods and fields of any type.
func namesOfExamples(tb testing.TB) map[string]bool {
	tb.Helper()
	names := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch base := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(base, ".") || base == "internal" || path == filepath.Join(root, "test") || path == filepath.Join(root, "dev")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(base, ".go"):
			return nil
		case !strings.HasPrefix(path, filepath.Join(root, "examples")+"/") && !strings.HasSuffix(base, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			declarations := file.Decls
			if !strings.HasPrefix(d.Name(), "example") && !strings.Contains(path, "/examples/") {
				declarations = slices.DeleteFunc(declarations, isNoExample)
			}
			addNames(file, declarations, names)
		}
		return err
	})
	require.NoError(tb, err)
	require.Greater(tb, len(names), 100)
	return names
}

func isNoExample(declaration ast.Decl) bool {
	f, isFunc := declaration.(*ast.FuncDecl)
	return !isFunc || !strings.HasPrefix(f.Name.Name, "Example")
}

// addNames adds what declarations of a file use.
func addNames(file *ast.File, declarations []ast.Decl, names map[string]bool) {
	imports := make(map[string]string)
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if !strings.HasPrefix(path, "github.com/signalbox-go/signalbox") {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = path
	}
	if len(imports) == 0 {
		return
	}
	for _, declaration := range declarations {
		ast.Inspect(declaration, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, isName := n.X.(*ast.Ident); isName && imports[x.Name] != "" {
					names[imports[x.Name]+"."+n.Sel.Name] = true
				}
				names["."+n.Sel.Name] = true
			case *ast.KeyValueExpr: // a field in a literal
				if key, isName := n.Key.(*ast.Ident); isName {
					names["."+key.Name] = true
				}
			}
			return true
		})
	}
}
