// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// check installs every module as it would be tagged. The module cache is a new one, so nothing of ours comes from elsewhere;
// modules of others come out of the machine's own cache, if they are in it. Its path is a new one too: the go command keeps an
// index of a module's packages by the path, and does not read the files again. Everything is removed at the end.
func check(root string, modules []module, version, last string) (err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, ".bin"), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Join(root, ".bin"), "release")
	if err != nil {
		return err
	}
	defer func() {
		if removed := os.RemoveAll(work); err == nil {
			err = removed
		}
	}()
	commit, err := revision(root)
	if err != nil {
		return err
	}
	source := filepath.Join(work, "source")
	if err := export(root, commit, modules, source); err != nil {
		return err
	}
	if err := publish(source, modules, version, filepath.Join(work, "proxy")); err != nil {
		return err
	}
	cache, err := goCommand(".", nil, "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	others, err := goCommand(".", nil, "env", "GOPROXY")
	if err != nil {
		return err
	}
	env := []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOMODCACHE=" + filepath.Join(work, "cache"), "GOBIN=" + filepath.Join(work, "bin"),
		"GOSUMDB=off", // it knows nothing of what is not released
		"GOPROXY=" + strings.Join([]string{"file://" + filepath.Join(work, "proxy"), "file://" + filepath.Join(cache, "cache/download"), others}, ","),
	}
	libraries, programs, err := packages(root, modules)
	if err != nil {
		return err
	}
	for _, program := range programs {
		if _, err := goCommand(work, env, "install", program+"@"+version); err != nil {
			return err
		}
		fmt.Println("go install", program)
	}
	consumer := filepath.Join(work, "consumer")
	if err := consume(consumer, env, modules, libraries, version); err != nil {
		return err
	}
	fmt.Printf("a program with %d packages: built\n", len(libraries))
	if last == "" {
		last = version
	}
	return upgrade(root, work, env, modules[0].file.Module.Mod.Path, programs[0], last)
}

// packages returns the import paths of the packages that users import, and of the programs that they install.
func packages(root string, modules []module) (libraries, programs []string, err error) {
	for _, m := range modules {
		out, err := goCommand(filepath.Join(root, m.dir), []string{"GOWORK="}, "list", "-json=ImportPath,Name", "./...")
		if err != nil {
			return nil, nil, err
		}
		for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
			var p struct{ ImportPath, Name string }
			if err := decoder.Decode(&p); err != nil {
				return nil, nil, err
			}
			switch {
			case slices.Contains(strings.Split(p.ImportPath, "/"), "internal"):
			case p.Name != "main":
				libraries = append(libraries, p.ImportPath)
			case p.ImportPath == m.file.Module.Mod.Path: // other programs are for those who work on the library
				programs = append(programs, p.ImportPath)
			}
		}
	}
	if len(programs) == 0 {
		return nil, nil, errors.New("no module is a program to install")
	}
	return libraries, programs, nil
}

// consume builds a program that imports every package, in a module of its own.
func consume(dir string, env []string, modules []module, libraries []string, version string) error {
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, library := range libraries {
		fmt.Fprintf(&source, "\t_ %q\n", library)
	}
	source.WriteString(")\n\nfunc main() {}\n")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source.String()), 0o600); err != nil {
		return err
	}
	get := []string{"get"}
	for _, m := range modules {
		name := m.file.Module.Mod.Path
		if slices.ContainsFunc(libraries, func(path string) bool { return path == name || strings.HasPrefix(path, name+"/") }) {
			get = append(get, name+"@"+version)
		}
	}
	for _, step := range [][]string{{"mod", "init", "example.com/consumer"}, get, {"build", "-o", os.DevNull, "."}} {
		if _, err := goCommand(dir, env, step...); err != nil {
			return err
		}
	}
	return nil
}

// goCommand runs the go command in dir and returns what it prints.
func goCommand(dir string, env []string, args ...string) (string, error) {
	command := exec.Command("go", args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
