// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// boundsElsewhere are the arguments of modules of their own, and the test that tries each with what is too small and too large. Options
// of clients are not in the list of the API: internal/wire has a test of those.
var boundsElsewhere = map[string]string{
	"gocron.NewLocker period":         "gocron TestPeriodsHaveBounds",
	"gocron.Locker.PeriodOf period":   "gocron TestPeriodsHaveBounds",
	"gocron.Locker.WithNow now":       "gocron TestPeriodsHaveBounds",
	"otel.WithHoldBuckets boundaries": "otel TestBoundariesThatDoNotRiseAreRefused",
	"otel.WithWaitBuckets boundaries": "otel TestBoundariesThatDoNotRiseAreRefused",
	"signalboxtest.Permits n":         "signalboxtest TestNumbersOfTheKitHaveBounds",
	"signalboxtest.Permits capacity":  "signalboxtest TestNumbersOfTheKitHaveBounds",
	"signalboxtest.Kit.Advance d":     "signalboxtest TestNumbersOfTheKitHaveBounds",
}

// apiLine matches a line of the list of the API: package, sort and the rest.
var apiLine = regexp.MustCompile(`^signalbox(?:/(?:\w+/)*(\w+))?: (\w+) (.*)$`)

// api is what the list of the API says of numbers.
type api struct {
	numeric   map[string]bool // the types that are numbers or times, or structs with an exported field of one
	arguments []string        // the arguments of functions and methods, their receivers included, that are of such a type
}

// readAPI reads the list of the API, the types first.
func readAPI(t *testing.T) *api {
	t.Helper()
	text, err := os.ReadFile("../surface/testdata/api.txt")
	require.NoError(t, err)
	a := &api{numeric: make(map[string]bool)}
	for name := range strings.FieldsSeq("int int8 int16 int32 int64 uint uint8 uint16 uint32 uint64 float32 float64 time.Duration time.Time") {
		a.numeric[name] = true
	}
	for _, want := range [][]string{{"type"}, {"field"}, {"func", "method"}} {
		for line := range strings.Lines(string(text)) {
			parts := apiLine.FindStringSubmatch(strings.TrimSpace(line))
			require.Len(t, parts, 4, line)
			if slices.Contains(want, parts[2]) {
				a.read(t, cmp.Or(parts[1], "signalbox"), parts[2], parts[3])
			}
		}
	}
	return a
}

// read reads the rest of a line.
func (a *api) read(t *testing.T, pkg, sort, rest string) {
	t.Helper()
	switch sort {
	case "type": // State uint8
		name, of, _ := strings.Cut(rest, " ")
		a.numeric[pkg+"."+name] = a.numeric[of]
	case "field": // (View) Count int
		owner, field, _ := strings.Cut(strings.TrimPrefix(rest, "("), ") ")
		_, of, _ := strings.Cut(field, " ")
		if kind, err := parser.ParseExpr(of); err == nil && a.isNumeric(pkg, kind) {
			a.numeric[pkg+"."+owner] = true
		}
	default:
		file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc "+rest, parser.SkipObjectResolution)
		require.NoError(t, err, rest)
		f := file.Decls[0].(*ast.FuncDecl) //nolint:forcetypeassert // it begins with func
		name := pkg + "." + f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			name = pkg + "." + receiver(of) + "." + f.Name.Name
			if a.isNumeric(pkg, of) {
				a.arguments = append(a.arguments, name+" receiver")
			}
		}
		for _, field := range f.Type.Params.List {
			for _, argument := range field.Names {
				if a.isNumeric(pkg, field.Type) {
					a.arguments = append(a.arguments, name+" "+argument.Name)
				}
			}
		}
	}
}

func receiver(of ast.Expr) string {
	if pointer, isPointer := of.(*ast.StarExpr); isPointer {
		of = pointer.X
	}
	return of.(*ast.Ident).Name //nolint:forcetypeassert // the types of the library have no parameters
}

// isNumeric reports whether an argument of the type brings numbers along.
func (a *api) isNumeric(pkg string, of ast.Expr) bool {
	switch of := of.(type) {
	case *ast.Ident:
		return a.numeric[of.Name] || a.numeric[pkg+"."+of.Name]
	case *ast.SelectorExpr:
		return a.numeric[of.X.(*ast.Ident).Name+"."+of.Sel.Name] //nolint:forcetypeassert // a package
	case *ast.StarExpr:
		return a.isNumeric(pkg, of.X)
	case *ast.Ellipsis:
		return a.isNumeric(pkg, of.Elt)
	case *ast.ArrayType:
		return a.isNumeric(pkg, of.Elt)
	case *ast.FuncType: // what it returns comes from the caller
		return of.Results != nil && slices.ContainsFunc(of.Results.List, func(f *ast.Field) bool { return a.isNumeric(pkg, f.Type) })
	default:
		return false
	}
}

// An argument that is a number, a duration or a time needs a row that says what is too small and too large.
func TestEveryNumberOfTheAPIHasARow(t *testing.T) {
	t.Parallel()
	listed := make(map[string]bool)
	for name := range boundRows() {
		listed[name] = true
	}
	for name, by := range boundsElsewhere {
		listed[name] = true
		folder, test, _ := strings.Cut(by, " ")
		requireTest(t, folder, test)
	}
	for _, name := range readAPI(t).arguments {
		if !listed[name] {
			t.Errorf("%s: no row says what is too small and too large", name)
		}
		delete(listed, name)
	}
	require.Empty(t, listed, "there are no such arguments")
}

// requireTest requires that a folder has a test.
func requireTest(t *testing.T, folder, test string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(files, func(path string) bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), "func "+test+"(t *testing.T)")
	}), "%s has no %s", folder, test)
}
