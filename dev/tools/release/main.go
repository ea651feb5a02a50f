// SPDX-License-Identifier: Apache-2.0

// Command release checks that the modules of this repository can be tagged as they are:
//
//	release [-dir folder] [-last version] check   install and build all of it, as after the tags
//	release [-dir folder] tags                    print the tags, one for each module, of the version that they require
//
// The check does what the go command cannot do before there are tags: it makes a module proxy of the last commit, as the tags would
// make one, and installs and builds every module from there, with an empty module cache. Changes that git knows and that are
// not committed yet are part of it. Then it runs processes of the tagged library and command beside those of the checkout
// (test/upgrade), or those of the version that -last names.
//
// # What is released
//
// The root module, and every nested module but those in the folders dev, examples and test. They have one version,
// which the nested ones require, and are tagged on one commit. A replace line is for development: those who depend on a
// module do not see it. A module with a program to install has none, since "go install" refuses it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
)

// repositoryRoot is the root of the repository, from the folder of this program: where go run -C dev/tools/release runs it.
const repositoryRoot = "../../.."

func main() {
	dir := flag.String("dir", repositoryRoot, "the root of the repository")
	last := flag.String("last", "", "the version to run beside the checkout, in place of what is checked")
	flag.Parse()
	if err := run(*dir, *last, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(dir, last, what string) error {
	all, err := findModules(dir)
	if err != nil {
		return err
	}
	modules, version, err := releasedVersion(all)
	if err != nil {
		return err
	}
	switch what {
	case "check":
		return check(dir, modules, version, last)
	case "tags":
		for _, m := range modules {
			fmt.Println(path.Join(m.dir, version))
		}
		return nil
	}
	return errors.New("usage: release [-dir folder] check | release [-dir folder] tags")
}
