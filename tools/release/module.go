// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// kept are the folders whose modules are not released.
var kept = []string{"bench", "examples", "test", "tools"}

// releasedModule is a module that is released.
type releasedModule struct {
	root  string   // the root of the repository
	dir   string   // the folder in the repository, "." for the root module
	path  string   // the import path
	files []string // the files in dir that belong to this module
}

// findModules returns the modules that are released, the root module first. Their files are those that git
// knows or would add, so that the check sees what is not committed yet.
func findModules(root string) ([]releasedModule, error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	var dirs []string
	for _, file := range files {
		if path.Base(file) == "go.mod" {
			dirs = append(dirs, path.Dir(file))
		}
	}
	slices.Sort(dirs) // "." comes first

	var modules []releasedModule
	for _, dir := range dirs {
		if top, _, _ := strings.Cut(dir, "/"); slices.Contains(kept, top) {
			continue
		}
		m := releasedModule{root: root, dir: dir}
		text, err := os.ReadFile(m.file("go.mod"))
		if err != nil {
			return nil, err
		}
		m.path = modfile.ModulePath(text)
		for _, file := range files {
			if in, ok := within(dir, file); ok && innermost(dirs, file) == dir && exists(m.file(in)) {
				m.files = append(m.files, in)
			}
		}
		modules = append(modules, m)
	}
	return modules, nil
}

// file returns the path of a file of the module.
func (m releasedModule) file(name string) string { return filepath.Join(m.root, m.dir, name) }

// exists reports whether a file is there: git also lists those that were deleted, and not committed. What is no regular
// file, as a link, is not part of a module.
func exists(file string) bool {
	info, err := os.Lstat(file)
	return err == nil && info.Mode().IsRegular()
}

// within returns a file's path in dir.
func within(dir, file string) (string, bool) {
	if dir == "." {
		return file, true
	}
	return strings.CutPrefix(file, dir+"/")
}

// innermost returns the longest of dirs that a file is in.
func innermost(dirs []string, file string) string {
	best := "."
	for _, dir := range dirs {
		if _, ok := within(dir, file); ok && dir != "." && len(dir) > len(best)-1 {
			best = dir
		}
	}
	return best
}

// goMod returns the go.mod of a release: it requires the other modules in that version, and replaces none.
func (m releasedModule) goMod(modules []releasedModule, version string) ([]byte, error) {
	text, err := os.ReadFile(m.file("go.mod"))
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(m.file("go.mod"), text, nil)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Clone(file.Replace) {
		if !slices.ContainsFunc(modules, func(other releasedModule) bool { return other.path == r.Old.Path }) {
			return nil, fmt.Errorf("%s replaces %s, which is not released", m.file("go.mod"), r.Old.Path)
		}
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, err
		}
	}
	for _, r := range slices.Clone(file.Require) {
		if slices.ContainsFunc(modules, func(other releasedModule) bool { return other.path == r.Mod.Path }) {
			if err := file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
		}
	}
	file.Cleanup()
	return file.Format()
}

// prepare writes the go.mod files of a release.
func prepare(modules []releasedModule, version string) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version such as v0.1.0", version)
	}
	for _, m := range modules {
		text, err := m.goMod(modules, version)
		if err == nil {
			err = os.WriteFile(m.file("go.mod"), text, 0o600) // the mode of the file that is there stays
		}
		if err != nil {
			return err
		}
	}
	if len(modules) == 0 {
		return errors.New("there is no module here")
	}
	return nil
}
