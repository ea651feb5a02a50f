// SPDX-License-Identifier: Apache-2.0

// Command release makes the modules of this repository ready for a release.
//
//	release check            install the modules as they would be tagged, with an empty module cache
//	release prepare VERSION  write the go.mod files of the commit that the nested modules are tagged at
//
// Both are for the repository in the folder -dir, the present one by default. RELEASE.md has all steps.
//
// # What is released
//
// The root module, and every nested module but those in the folders bench, examples, test and tools.
// All of them have one version.
//
// # What changes in a go.mod
//
// While it is developed, a nested module replaces the others by their folders. In a release it requires
// them in that version: a module that depends on it does not see its replace lines, and "go install" refuses a
// program whose module has some.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

var errUsage = errors.New("usage: release [-dir folder] check | release [-dir folder] prepare VERSION")

func main() {
	dir := flag.String("dir", ".", "the root of the repository")
	flag.Parse()
	if err := run(*dir, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(dir string, args []string) error {
	modules, err := findModules(dir)
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "check":
		return check(modules, filepath.Join(dir, ".bin", "release"))
	case len(args) == 2 && args[0] == "prepare":
		return prepare(modules, args[1])
	}
	return errUsage
}
