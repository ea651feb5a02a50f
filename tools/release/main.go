// SPDX-License-Identifier: Apache-2.0

// Command release checks that the modules of this repository can be tagged as they are:
//
//	release [-dir folder]
//
// It does what the go command cannot do before there are tags: it makes a module proxy of the last commit, as the tags would
// make one, and installs and builds every module from there, with an empty module cache. Changes that git knows and that are
// not committed yet are part of it. Then it runs processes of the tagged library and command beside those of the checkout
// (test/upgrade).
//
// # What is released
//
// The root module, and every nested module but those in the folders bench, dev, examples, test and tools. They have one version,
// which the nested ones require, and are tagged on one commit. A replace line is for development: those who depend on a
// module do not see it. A module with a program to install has none, since "go install" refuses it.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", ".", "the root of the repository")
	flag.Parse()
	if err := check(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
