// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Identifiers, and the names of files and folders, use the words of the field. testdata/names.txt lists those that they do not use,
// and what to say instead.
func TestNamesUseTheWordsOfTheField(t *testing.T) {
	t.Parallel()
	requireWords(t, "testdata/names.txt", readNames(t))
}

// A name that several packages give to types of their own has to be learnt several times. What public packages
// name alike is listed.
func TestATypeNameIsDeclaredInTwoPackagesAtMost(t *testing.T) {
	t.Parallel()
	folders := make(map[string][]string)
	for _, d := range libraryTypes(t) {
		folders[d.spec.Name.Name] = append(folders[d.spec.Name.Name], d.folder)
	}
	for _, name := range []string{"Lock", "Holder", "Waiter", "Entry"} {
		folders[name] = slices.DeleteFunc(folders[name], func(folder string) bool { return !strings.HasPrefix(folder, "internal") })
	}
	for name, in := range folders {
		slices.Sort(in)
		assert.LessOrEqual(t, len(slices.Compact(in)), 2, "%s is declared in %q: choose a name that says more", name, in)
	}
}

// The name of an internal type is made of words that every engineer of the field knows (testdata/terms.txt) and of words that the
// glossary explains.
func TestTheNameOfAnInternalTypeIsKnownOrExplained(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	terms, err := os.ReadFile("testdata/terms.txt")
	require.NoError(t, err)
	for word := range strings.FieldsSeq(string(terms)) {
		known[word] = true
	}
	glossary, err := os.ReadFile(root + "/docs/glossary.md")
	require.NoError(t, err)
	for _, row := range regexp.MustCompile(`(?m)^\| \*\*(.+?)\*\*`).FindAllStringSubmatch(string(glossary), -1) {
		for word := range strings.FieldsFuncSeq(strings.ToLower(row[1]), func(r rune) bool { return r == ' ' || r == '-' }) {
			known[word] = true
		}
	}
	for _, d := range libraryTypes(t) {
		if !strings.HasPrefix(d.folder, "internal") {
			continue
		}
		for word := range strings.FieldsSeq(words(d.spec.Name.Name)) {
			assert.True(t, known[word] || known[strings.TrimSuffix(word, "s")],
				"%s.%s: %q is no word of testdata/terms.txt, and docs/glossary.md has no row for it", d.folder, d.spec.Name.Name, word)
		}
	}
}

// The comment of a field says what the field is. One that begins with a preposition or a pronoun has no noun, and has to be read with
// the comment above it.
func TestTheCommentOfAFieldHasItsNoun(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`^(of|for|in|at|as|on|from|to|with|without|until|since|before|after|then|else|also|that|if|all that|each|another|one of|` +
		`those|these|it|its|they|their|which|whose|how many of|by (them|these|those|it|which|whose)) `)
	inFiles(t, func(path string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			fields, ok := n.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range fields.Fields.List {
				for _, c := range []*ast.CommentGroup{f.Doc, f.Comment} {
					assert.NotRegexp(t, bare, strings.TrimSpace(c.Text()), "%s:%d", path, set.Position(f.Pos()).Line)
				}
			}
			return true
		})
	})
}

// declaration is a type of the library, and the folder of its package.
type declaration struct {
	folder string
	spec   *ast.TypeSpec
}

// libraryTypes returns the types that the library's own packages declare outside of tests, of functions and of the kits for tests.
func libraryTypes(tb testing.TB) (all []declaration) {
	tb.Helper()
	others := regexp.MustCompile(`^(bench|cmd|examples|gocron|otel|signalboxtest|test|tools|internal/testing)/|_test\.go$`)
	inFiles(tb, func(path string, _ *token.FileSet, file *ast.File) {
		if others.MatchString(path) {
			return
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				for _, s := range d.Specs {
					all = append(all, declaration{filepath.Dir(path), s.(*ast.TypeSpec)})
				}
			}
		}
	})
	return all
}

// sentence is the name of a test, which is prose.
var sentence = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z_]`)

// readNames returns the names that are declared in all code, and those of files and folders, in words: "read names".
func readNames(tb testing.TB) (all []passage) {
	tb.Helper()
	folders := make(map[string]bool)
	inTree(tb, func(path string) error {
		switch filepath.Ext(path) {
		case ".go", ".lua", ".java", ".py", ".pml":
		default:
			return nil
		}
		all = append(all, passage{path, words(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))})
		if folder := filepath.Dir(path); !folders[folder] {
			folders[folder] = true
			all = append(all, passage{folder, words(filepath.Base(folder))})
		}
		return nil
	})
	inFiles(tb, func(path string, set *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			all = append(all, caseNames(path, set, file)...)
		}
		for id := range declared(file) {
			if sentence.MatchString(id.Name) {
				continue
			}
			all = append(all, passage{fmt.Sprintf("%s:%d: %s", path, set.Position(id.Pos()).Line, id.Name), words(id.Name)})
		}
	})
	inTree(tb, func(path string) error {
		names := assigned[filepath.Ext(path)]
		if names == nil {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		for _, m := range names.FindAllStringSubmatch(string(text), -1) {
			all = append(all, passage{path + ": " + m[0], words(strings.Join(m[1:], " "))})
		}
		return err
	})
	return all
}

// assigned finds the names that files of other languages than Go declare. The regular expressions know those languages no better than
// our files need.
var assigned = map[string]*regexp.Regexp{
	".lua":  regexp.MustCompile(`(?m)^\s*(?:local function (\w+)|local ([\w, ]+)|function (\w+))`),
	".java": regexp.MustCompile(`[\w>\]] (\w+)(?: =|;|\(| :|\)|,)`),
	".py":   regexp.MustCompile(`(?m)^\s*(?:def (\w+)|class (\w+)|([\w, ]+) = )`),
	".pml":  regexp.MustCompile(`(?m)^\s*(?:#define (\w+)|(?:byte|bit|bool|int|short|chan|mtype) (\w+)|(?:inline|proctype|active proctype) (\w+))`),
}

// caseName is a text that may be the name of a case of a test: "LeaveToTheNext", but not "ASK".
var caseName = regexp.MustCompile(`^"[A-Z]\w*[a-z]\w*"$`)

func caseNames(path string, set *token.FileSet, file *ast.File) (all []passage) {
	ast.Inspect(file, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && caseName.MatchString(text.Value) {
			all = append(all, passage{fmt.Sprintf("%s:%d: %s", path, set.Position(text.Pos()).Line, text.Value), words(strings.Trim(text.Value, `"`))})
		}
		return true
	})
	return all
}

// declared yields the identifiers that a file declares: of packages, types, members, functions and variables.
func declared(file *ast.File) func(yield func(*ast.Ident) bool) {
	return func(yield func(*ast.Ident) bool) {
		more := true
		give := func(names ...*ast.Ident) {
			for _, id := range names {
				more = more && id != nil && yield(id)
			}
		}
		give(file.Name)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				give(n.Name)
			case *ast.TypeSpec:
				give(n.Name)
			case *ast.Field:
				give(n.Names...)
			case *ast.ValueSpec:
				give(n.Names...)
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
						give(id)
					}
				}
			case *ast.RangeStmt:
				for _, e := range []ast.Expr{n.Key, n.Value} {
					if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
						give(id)
					}
				}
			}
			return more
		})
	}
}

// words returns the words of a name in lower case, with blanks between them.
func words(name string) string {
	name = camel.ReplaceAllString(name, "$1 $2")
	return strings.ToLower(strings.NewReplacer("_", " ", "-", " ", ".", " ", ",", " ").Replace(name))
}

// inFiles calls do with each Go file, generated ones and those of testdata excepted.
func inFiles(tb testing.TB, do func(path string, set *token.FileSet, file *ast.File)) {
	tb.Helper()
	set := token.NewFileSet()
	inTree(tb, func(path string) error {
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(set, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err == nil {
			do(path, set, file)
		}
		return err
	})
}

// inTree calls do with the path of each file below the root, hidden folders and testdata excepted.
func inTree(tb testing.TB, do func(path string) error) {
	tb.Helper()
	require.NoError(tb, fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		return do(path)
	}))
}
