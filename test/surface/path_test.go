// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

const module = "github.com/signalbox-go/signalbox/"

// stackSpy is a client that keeps the library's frames of the last call that Lock made, the client's caller first.
type stackSpy struct {
	rueidis.Client

	mu     sync.Mutex
	frames []string
}

func (s *stackSpy) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	var own []string
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if name, is := strings.CutPrefix(frame.Function, module); is && !strings.HasPrefix(name, "test/") {
			own = append(own, name)
		}
	}
	if len(own) > 0 && own[len(own)-1] == "reentrant.(*Lock).Lock" {
		s.mu.Lock()
		s.frames = own
		s.mu.Unlock()
	}
	return s.Client.Do(ctx, command)
}

// pathOfLock returns the library's functions from Lock to the client, the first one first.
func pathOfLock(t *testing.T) []string {
	t.Helper()
	spy := &stackSpy{Client: redistest.Start(t).Client(t, signalbox.Tune)}
	s := signalbox.NewSession(spy)
	t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
	lock := reentrant.New(s, "path")
	ctx := context.WithoutCancel(t.Context()) // a call that its caller cannot leave runs on the goroutine of its caller
	var path []string
	for range 2 { // the server learns the scripts by the first
		lease, err := lock.Lock(ctx)
		require.NoError(t, err)
		spy.mu.Lock()
		path = slices.Clone(spy.frames)
		spy.mu.Unlock()
		require.NoError(t, lease.Unlock())
	}
	slices.Reverse(path)
	return path
}

// The way of Lock to the server stays short: few functions, few types in their signatures, and no package calls back one that
// called it.
func TestLock_PathToTheClient_IsShort(t *testing.T) {
	t.Parallel()
	path := pathOfLock(t)
	assert.LessOrEqual(t, len(path), 9, "%q", path)
	var packages []string
	types := make(map[string]bool)
	for _, function := range path {
		pkg, _, _ := strings.Cut(function[strings.LastIndex(function, "/")+1:], ".")
		pkg = function[:strings.LastIndex(function, "/")+1] + pkg
		if len(packages) == 0 || packages[len(packages)-1] != pkg {
			packages = append(packages, pkg)
		}
		for _, name := range signatureTypes(t, pkg, function[strings.LastIndex(function, ".")+1:], receiverIn(function)) {
			types[name] = true
		}
	}
	assert.Equal(t, []string{"reentrant", "internal/acquire", "internal/acquire/local", "internal/acquire/queue", "internal/wire"}, packages)
	assert.NotEmpty(t, types)
	assert.LessOrEqual(t, len(types), 12, "%v", types)
}

// receiverIn returns the type of the receiver in the name of a method, such as (*Lock).Lock.
func receiverIn(function string) string {
	match := regexp.MustCompile(`\(\*(\w+)\)`).FindStringSubmatch(function)
	if match == nil {
		return ""
	}
	return match[1]
}

// signatureTypes returns the library's types in the signature of a method.
func signatureTypes(t *testing.T, pkg, method, receiver string) (types []string) {
	t.Helper()
	for _, file := range filesOf(t, pkg) {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != method || f.Recv == nil || receiverType(f.Recv.List[0].Type) != receiver {
				continue
			}
			types = append(types, namesIn(f.Recv, file.Name.Name)...)
			types = append(types, namesIn(f.Type, file.Name.Name)...)
		}
	}
	require.NotEmpty(t, types, "%s has no method %s", pkg, method)
	return types
}

// namesIn returns the types in fields: those of the package, and those of other packages of the library.
func namesIn(fields ast.Node, pkg string) (names []string) {
	foreign := []string{"context", "rueidis", "time"}
	var inspect func(n ast.Node) bool
	inspect = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			ast.Inspect(n.Type, inspect)
			return false
		case *ast.SelectorExpr:
			if of := n.X.(*ast.Ident).Name; !slices.Contains(foreign, of) { //nolint:forcetypeassert // a type's package is a name
				names = append(names, of+"."+n.Sel.Name)
			}
			return false
		case *ast.Ident:
			if !slices.Contains([]string{"bool", "error", "string", "int", "any"}, n.Name) {
				names = append(names, pkg+"."+n.Name)
			}
		}
		return true
	}
	ast.Inspect(fields, inspect)
	return names
}

// filesOf returns the files of a package of the library, without tests.
func filesOf(t *testing.T, pkg string) (files []*ast.File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
	require.NoError(t, err)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	return files
}

// An attempt is a state and a footprint, and few facts beside them; and its package has two interfaces: those of a ticket and of a
// hold.
func TestAttempt_FewBooleans_FewInterfaces(t *testing.T) {
	t.Parallel()
	var interfaces []string
	booleans := make(map[string]int)
	for _, pkg := range []string{"internal/acquire/queue", "internal/acquire/retry", "internal/session"} {
		for _, file := range filesOf(t, pkg) {
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if _, is := spec.Type.(*ast.InterfaceType); is && pkg == "internal/acquire/queue" {
					interfaces = append(interfaces, spec.Name.Name)
				}
				if fields, is := spec.Type.(*ast.StructType); is {
					booleans[file.Name.Name+"."+spec.Name.Name] = countBooleans(fields)
				}
				return true
			})
		}
	}
	slices.Sort(interfaces)
	assert.Equal(t, []string{"Hold", "Ticket"}, interfaces)
	require.Contains(t, booleans, "session.Footprint")
	for _, attempt := range []string{"queue.Attempt", "retry.attempt"} {
		require.Contains(t, booleans, attempt)
		assert.LessOrEqual(t, booleans[attempt]+booleans["session.Footprint"], 3, attempt)
	}
}

// countBooleans counts the fields of a struct that are true or false.
func countBooleans(s *ast.StructType) (n int) {
	for _, f := range s.Fields.List {
		if kind, is := f.Type.(*ast.Ident); is && kind.Name == "bool" {
			n += max(len(f.Names), 1)
		}
	}
	return n
}
