// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// golden is the exported API of the library and of the modules that are released with it.
const golden = "testdata/api.txt"

// unreleased are the folders of modules that are not released.
const unreleased = "dev examples test"

var update = flag.Bool("update", false, "write testdata/api.txt")

// TestTheAPIIsTheGoldenOne compares every exported identifier of every public package, and its type, with
// the golden file. So a change of the API is seen where it is reviewed.
func TestTheAPIIsTheGoldenOne(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Glob(root + "/*/go.mod")
	require.NoError(t, err)
	contributed, err := filepath.Glob(root + "/contrib/*/go.mod")
	require.NoError(t, err)
	var lines []string
	for _, file := range slices.Concat(modules, contributed, []string{root + "/go.mod"}) {
		if dir := filepath.Dir(file); !slices.Contains(strings.Fields(unreleased), filepath.Base(dir)) {
			lines = append(lines, moduleAPI(t, dir)...)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
		return
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "cd test && go test ./surface -run TestTheAPI -update writes it")
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Name, Export string
	DepOnly                  bool
}

// moduleAPI returns a line for each exported identifier of the public packages of the module in dir.
func moduleAPI(tb testing.TB, dir string) (lines []string) {
	tb.Helper()
	list := exec.CommandContext(tb.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Name,Export,DepOnly", "./...")
	list.Dir, list.Env = dir, append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	require.NoError(tb, err, stderr.String())

	exports := make(map[string]string) // the file with the types of each package
	var public []string
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		}
		require.NoError(tb, err)
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && p.Name != "main" && !slices.Contains(strings.Split(p.ImportPath, "/"), "internal") {
			public = append(public, p.ImportPath)
		}
	}
	require.NotEmpty(tb, exports)
	gc := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	for _, path := range public {
		p, err := gc.Import(path)
		require.NoError(tb, err)
		lines = append(lines, packageAPI(p)...)
	}
	return lines
}

// packageAPI returns a line for each exported identifier of a package: declarations, fields and methods.
func packageAPI(p *types.Package) (lines []string) {
	short := func(of *types.Package) string {
		if of == p {
			return ""
		}
		return of.Name()
	}
	add := func(format string, args ...any) {
		lines = append(lines, strings.TrimPrefix(p.Path(), "github.com/signalbox-go/")+": "+fmt.Sprintf(format, args...))
	}
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		named, isType := object.(*types.TypeName)
		if !isType {
			add("%s", types.ObjectString(object, short))
			if c, isConst := object.(*types.Const); isConst {
				lines[len(lines)-1] += " = " + c.Val().ExactString()
			}
			continue
		}
		add("type %s %s", name, outline(named, short))
		if s, isStruct := named.Type().Underlying().(*types.Struct); isStruct {
			for field := range s.Fields() {
				if field.Exported() { // also one of an internal type that this one is defined over: users can reach it
					add("field (%s) %s %s", name, field.Name(), types.TypeString(field.Type(), short))
				}
			}
		}
		for _, method := range methods(named.Type()) {
			signature := strings.TrimPrefix(types.TypeString(method.Type(), short), "func")
			add("method (%s) %s%s", types.TypeString(method.Recv(), short), method.Obj().Name(), signature)
		}
	}
	return lines
}

// outline returns what a type is, without what is on lines of its own.
func outline(named *types.TypeName, short types.Qualifier) string {
	switch t := named.Type().Underlying().(type) {
	case *types.Struct:
		return "struct"
	case *types.Interface:
		return "interface"
	default:
		return types.TypeString(t, short)
	}
}

// methods returns the exported methods of a type, or of the pointer to it if it has more.
func methods(t types.Type) (all []*types.Selection) {
	of := types.NewMethodSet(t)
	if pointer := types.NewMethodSet(types.NewPointer(t)); !types.IsInterface(t) && pointer.Len() > of.Len() {
		of = pointer
	}
	for method := range of.Methods() {
		if ast.IsExported(method.Obj().Name()) {
			all = append(all, method)
		}
	}
	return all
}
