// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.VerifyTestMain(redistest.WithParallelism(4, m)) }

// root is the folder of the module.
const root = "../.."

// public returns the files of the public packages, each with the name of its package.
func public(tb testing.TB) (files []*ast.File) {
	tb.Helper()
	private := []string{"internal", "test", "dev", "cmd", "examples", "contrib", "signalboxtest", "docs", "testdata"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (slices.Contains(private, d.Name()) || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil && file.Name.Name != "main" {
			files = append(files, file)
		}
		return err
	})
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	return files
}

// newSession returns a session on a connection of its own, closed when the test ends.
func newSession(tb testing.TB, server *redistest.Server, options ...signalbox.SessionOption) *signalbox.Session {
	tb.Helper()
	s := signalbox.NewSession(server.Client(tb, signalbox.Tune), options...)
	tb.Cleanup(func() { _ = s.Close(tb.Context()) })
	return s
}
