// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// versionOf returns the version that is checked. It is in no proxy, and differs for other files: the go
// command keeps an index of each version's packages beside its build cache, and never reads the files
// again.
func versionOf(modules []releasedModule) (string, error) {
	hash := sha256.New()
	for _, m := range modules {
		for _, name := range m.files {
			text, err := os.ReadFile(m.file(name))
			if err != nil {
				return "", err
			}
			_, _ = fmt.Fprintf(hash, "%s/%s %d\n%s", m.dir, name, len(text), text)
		}
	}
	return fmt.Sprintf("v0.0.1-check.h%x", hash.Sum(nil)[:8]), nil
}

// check installs every module as it would be tagged. The module cache is a new one, so nothing of ours
// comes from elsewhere; modules of others come out of the machine's own cache, if they are in it. Everything is in the
// folder work, which is removed at the end.
func check(modules []releasedModule, work string) error {
	work, err := filepath.Abs(work)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	proxy, consumer := filepath.Join(work, "proxy"), filepath.Join(work, "consumer")
	if err := os.MkdirAll(consumer, 0o755); err != nil {
		return err
	}
	checked, err := versionOf(modules)
	if err != nil {
		return err
	}
	if err := publish(modules, checked, proxy); err != nil {
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
		"GOPROXY=" + strings.Join([]string{"file://" + proxy, "file://" + filepath.Join(cache, "cache/download"), others}, ","),
	}
	libraries, programs, err := packages(modules)
	if err != nil {
		return err
	}
	for _, program := range programs {
		if _, err := goCommand(consumer, env, "install", program+"@"+checked); err != nil {
			return err
		}
		fmt.Println("go install", program)
	}
	if err := consume(consumer, env, modules, libraries, checked); err != nil {
		return err
	}
	fmt.Printf("a program with %d packages: built\n", len(libraries))
	return os.RemoveAll(work)
}

// packages returns the import paths of the packages that users import, and of the programs that they install.
func packages(modules []releasedModule) (libraries, programs []string, err error) {
	for _, m := range modules {
		out, err := goCommand(filepath.Join(m.root, m.dir), []string{"GOWORK=off"}, "list", "-json=ImportPath,Name", "./...")
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
			case p.ImportPath == m.path: // other programs are for those who work on the library
				programs = append(programs, p.ImportPath)
			}
		}
	}
	return libraries, programs, nil
}

// consume builds a program that imports every package, in a module of its own.
func consume(dir string, env []string, modules []releasedModule, libraries []string, checked string) error {
	var source strings.Builder
	source.WriteString("package main\n\nimport (\n")
	for _, library := range libraries {
		fmt.Fprintf(&source, "\t_ %q\n", library)
	}
	source.WriteString(")\n\nfunc main() {}\n")
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source.String()), 0o600); err != nil {
		return err
	}
	steps := [][]string{{"mod", "init", "example.com/consumer"}, {"get"}, {"build", "-o", os.DevNull, "."}}
	for _, m := range modules {
		if slices.ContainsFunc(libraries, func(path string) bool { return path == m.path || strings.HasPrefix(path, m.path+"/") }) {
			steps[1] = append(steps[1], m.path+"@"+checked)
		}
	}
	for _, step := range steps {
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
