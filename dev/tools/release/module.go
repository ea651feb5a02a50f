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
)

// kept are the folders whose modules are not released.
var kept = []string{"dev", "examples", "test"}

// module is a module of the repository.
type module struct {
	dir  string // in the repository, "." for the root module
	file *modfile.File
}

// isReleased reports whether the module has tags.
func (m module) isReleased() bool {
	top, _, _ := strings.Cut(m.dir, "/")
	return !slices.Contains(kept, top)
}

// findModules returns the modules of the repository, the root module first.
func findModules(root string) (modules []module, err error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--", "go.mod", "*/go.mod").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // it was removed, and not committed
		} else if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		modules = append(modules, module{path.Dir(name), file})
	}
	slices.SortFunc(modules, func(a, b module) int { return strings.Compare(a.dir, b.dir) }) // "." comes first
	return modules, nil
}

// releasedVersion returns the modules that are released, and the one version in which they require each other.
func releasedVersion(modules []module) (released []module, version string, err error) {
	paths := make(map[string]bool)
	for _, m := range modules {
		if m.isReleased() {
			released = append(released, m)
			paths[m.file.Module.Mod.Path] = true
		}
	}
	for _, m := range released {
		for _, r := range m.file.Require {
			switch {
			case !paths[r.Mod.Path]:
			case version == "":
				version = r.Mod.Version
			case version != r.Mod.Version:
				return nil, "", fmt.Errorf("%s requires %s, another module %s", m.file.Syntax.Name, r.Mod, version)
			}
		}
		for _, r := range m.file.Replace {
			if !paths[r.Old.Path] {
				return nil, "", fmt.Errorf("%s replaces %s, which is not released", m.file.Syntax.Name, r.Old.Path)
			}
		}
	}
	if version == "" {
		return nil, "", errors.New("no module requires another one")
	}
	return released, version, nil
}
