// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// newRepository returns the modules of a repository with these files.
func newRepository(t *testing.T, files map[string]string) []releasedModule {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, exec.CommandContext(t.Context(), "git", "-C", root, "init", "-q").Run())
	for name, text := range files {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	modules, err := findModules(root)
	require.NoError(t, err)
	return modules
}

// repository has a library, an adapter, a program two folders down, and modules that are not released.
func repository() map[string]string {
	replaced := "\nreplace example.com/lib => ../\n"
	return map[string]string{
		".gitignore":       "/.bin/\n",
		".bin/big":         "x",
		"LICENSE":          "all rights",
		"go.mod":           "module example.com/lib\n\ngo 1.25.0\n",
		"lib.go":           "package lib\n",
		"adapter/go.mod":   "module example.com/lib/adapter\n\ngo 1.25.0\n\nrequire example.com/lib v0.0.0\n" + replaced,
		"adapter/a.go":     "package adapter\n\nimport _ \"example.com/lib\"\n",
		"cmd/tool/go.mod":  "module example.com/lib/cmd/tool\n\ngo 1.25.0\n",
		"cmd/tool/main.go": "package main\n\nfunc main() {}\n",
		"test/go.mod":      "module example.com/lib/test\n",
		"tools/x/go.mod":   "module example.com/lib/tools/x\n",
	}
}

func TestEveryModuleHasItsOwnFiles(t *testing.T) {
	t.Parallel()
	files := make(map[string][]string)
	for _, m := range newRepository(t, repository()) {
		files[m.path] = m.files
	}
	require.Equal(t, map[string][]string{
		"example.com/lib":          {".gitignore", "LICENSE", "go.mod", "lib.go"},
		"example.com/lib/adapter":  {"a.go", "go.mod"},
		"example.com/lib/cmd/tool": {"go.mod", "main.go"},
	}, files)
}

func TestReleasedModulesRequireEachOther(t *testing.T) {
	t.Parallel()
	modules := newRepository(t, repository())
	require.NoError(t, prepare(modules, "v0.1.0"))
	text, err := os.ReadFile(filepath.Join(modules[0].root, "adapter", "go.mod"))
	require.NoError(t, err)
	require.Equal(t, "module example.com/lib/adapter\n\ngo 1.25.0\n\nrequire example.com/lib v0.1.0\n", string(text))

	for _, version := range []string{"0.1.0", "v0.1", "latest", ""} {
		require.ErrorContains(t, prepare(modules, version), "no version", version)
	}
}

func TestAModuleThatIsNotReleasedIsNotReplaced(t *testing.T) {
	t.Parallel()
	files := repository()
	files["adapter/go.mod"] += "replace example.com/other => ../other\n"
	require.ErrorContains(t, prepare(newRepository(t, files), "v0.1.0"), "example.com/other, which is not released")
}

func TestANestedModuleGetsTheLicense(t *testing.T) {
	t.Parallel()
	modules := newRepository(t, repository())
	proxy := t.TempDir()
	require.NoError(t, publish(modules, "v0.1.0", proxy))

	archive, err := zip.OpenReader(filepath.Join(proxy, "example.com/lib/adapter/@v/v0.1.0.zip"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = archive.Close() })
	var names []string
	for _, file := range archive.File {
		names = append(names, file.Name)
	}
	const in = "example.com/lib/adapter@v0.1.0/"
	slices.Sort(names)
	require.Equal(t, []string{in + "LICENSE", in + "a.go", in + "go.mod"}, names)

	file, err := archive.Open(in + "go.mod")
	require.NoError(t, err)
	text, err := io.ReadAll(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), "replace")
	require.Contains(t, string(text), "example.com/lib v0.1.0")
}
