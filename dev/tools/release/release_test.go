// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
)

// The modules of one version of Go require one version of whatever two of them name themselves: what a user builds with several of
// them was built together here.
func TestModulesRequireOneVersionOfEachOther(t *testing.T) {
	t.Parallel()
	modules, err := findModules(repositoryRoot)
	require.NoError(t, err)
	require.Greater(t, len(modules), 10)
	released, _, err := releasedVersion(modules)
	require.NoError(t, err)
	var dirs []string
	for _, m := range released {
		dirs = append(dirs, m.dir)
	}
	require.Equal(t, []string{".", "cmd/signalbox", "contrib/gocron", "contrib/goredis", "contrib/otel", "contrib/valkeygo", "signalboxtest"}, dirs, "a further module has tags for ever")
	first := make(map[string]string)
	for _, m := range modules {
		for _, r := range m.file.Require {
			key := m.file.Go.Version + " " + r.Mod.Path
			if isOurs(modules, r) {
				key = "ours"
			} else if r.Indirect {
				continue
			}
			if first[key] == "" {
				first[key] = r.Mod.Version
			}
			require.Equal(t, first[key], r.Mod.Version, "%s requires another version of %s", m.file.Syntax.Name, r.Mod.Path)
		}
	}
}

// The reference of each package that users import says when to use it, and has an example, whose output is compared.
func TestEveryPackageSaysWhenToUseItAndHasAnExample(t *testing.T) {
	t.Parallel()
	modules, err := findModules(repositoryRoot)
	require.NoError(t, err)
	released, _, err := releasedVersion(modules)
	require.NoError(t, err)
	libraries, _, err := packages(repositoryRoot, released)
	require.NoError(t, err)
	require.Greater(t, len(libraries), 15)
	for _, library := range libraries {
		files, err := filepath.Glob(filepath.Join(repositoryRoot, strings.TrimPrefix(library, released[0].file.Module.Mod.Path), "*.go"))
		require.NoError(t, err)
		hasUse, hasExample := false, false
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasSuffix(file, "_test.go") {
				hasExample = hasExample || strings.Contains(string(text), "\nfunc Example") && strings.Contains(string(text), "\t// Output:")
				continue
			}
			doc, _, _ := strings.Cut(string(text), "\npackage ")
			_, use, found := strings.Cut(doc, "//\n// Use it ")
			use, _, _ = strings.Cut(use, "//\n")
			hasUse = hasUse || found && strings.Count(use+" ", ". ")+strings.Count(use, ".\n")+strings.Count(use, "; ") > 1 // and when not
		}
		require.True(t, hasUse, "the doc of %s does not say when to use it, and when not", library)
		require.True(t, hasExample, "%s has no example with output", library)
	}
}

func isOurs(modules []module, r *modfile.Require) bool {
	return slices.ContainsFunc(modules, func(m module) bool { return m.file.Module.Mod.Path == r.Mod.Path })
}

// newRepository returns the folder of a repository with these files, of one commit.
func newRepository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		at := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		require.NoError(t, os.WriteFile(at, []byte(text), 0o600))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t", "commit", "-qm", "all"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return root
}

// repository has a library, an adapter, a program two folders down, and modules that are not released.
func repository() map[string]string {
	return map[string]string{
		"LICENSE":          "all rights",
		"go.mod":           "module example.com/lib\n\ngo 1.25.0\n",
		"lib.go":           "package lib\n",
		"adapter/go.mod":   "module example.com/lib/adapter\n\ngo 1.25.0\n\nrequire example.com/lib v0.1.0\n\nreplace example.com/lib => ../\n",
		"adapter/a.go":     "package adapter\n\nimport _ \"example.com/lib\"\n",
		"cmd/tool/go.mod":  "module example.com/lib/cmd/tool\n\ngo 1.25.0\n\nrequire example.com/lib v0.1.0\n",
		"cmd/tool/main.go": "package main\n\nfunc main() {}\n",
		"test/go.mod":      "module example.com/lib/test\n\nrequire example.com/lib v0.0.0\n",
		"dev/x/go.mod":     "module example.com/lib/dev/x\n",
	}
}

func TestReleasedModulesRequireEachOtherInOneVersion(t *testing.T) {
	t.Parallel()
	find := func(files map[string]string) (dirs []string, version string, err error) {
		modules, err := findModules(newRepository(t, files))
		require.NoError(t, err)
		released, version, err := releasedVersion(modules)
		for _, m := range released {
			dirs = append(dirs, m.dir)
		}
		return dirs, version, err
	}
	dirs, version, err := find(repository())
	require.NoError(t, err)
	require.Equal(t, "v0.1.0", version)
	require.Equal(t, []string{".", "adapter", "cmd/tool"}, dirs)

	files := repository()
	files["cmd/tool/go.mod"] = "module example.com/lib/cmd/tool\n\nrequire example.com/lib v0.2.0\n"
	_, _, err = find(files)
	require.ErrorContains(t, err, "another module v0.1.0")

	files = repository()
	files["adapter/go.mod"] += "replace example.com/other => ../other\n"
	_, _, err = find(files)
	require.ErrorContains(t, err, "example.com/other, which is not released")
}

func TestAModuleIsPublishedAsATagWouldHaveIt(t *testing.T) {
	t.Parallel()
	root, source, proxy := newRepository(t, repository()), t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "adapter", "a.go"), []byte("package adapter // changed\n"), 0o600))
	modules, err := findModules(root)
	require.NoError(t, err)
	released, version, err := releasedVersion(modules)
	require.NoError(t, err)
	commit, err := revision(root)
	require.NoError(t, err)
	require.NoError(t, export(root, commit, released, source))
	require.NoError(t, publish(source, released, version, proxy))

	for module, expected := range map[string]string{"lib": "[LICENSE go.mod lib.go]", "lib/adapter": "[LICENSE a.go go.mod]", "lib/cmd/tool": "[LICENSE go.mod main.go]"} {
		archive, err := zip.OpenReader(filepath.Join(proxy, "example.com", module, "@v/v0.1.0.zip"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = archive.Close() })
		var names []string
		for _, file := range archive.File {
			names = append(names, file.Name[len("example.com/"+module+"@v0.1.0/"):])
			if module == "lib/adapter" && filepath.Base(file.Name) == "a.go" {
				require.EqualValues(t, len("package adapter // changed\n"), file.UncompressedSize64, "what is not committed yet is part of it")
			}
		}
		slices.Sort(names)
		require.Equal(t, expected, fmt.Sprint(names))
	}
}

// A formatter that writes a file as it was changes nothing that is released.
func TestAFileThatIsWrittenAgainIsNoChange(t *testing.T) {
	t.Parallel()
	root := newRepository(t, repository())
	require.NoError(t, os.Chtimes(filepath.Join(root, "lib.go"), time.Unix(1, 0), time.Unix(1, 0)))
	commit, err := revision(root)
	require.NoError(t, err)
	require.Equal(t, "HEAD", commit)
}
