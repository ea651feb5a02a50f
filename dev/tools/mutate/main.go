// SPDX-License-Identifier: Apache-2.0

// Command mutate measures what the tests notice: it changes the library in one place at a time, and runs tests.
//
//	mutate run      try the mutants of the list
//	mutate keep     write what became of each mutant to a file of the repository
//	mutate summary  print what became of them by package
//	mutate list     add mutants of a folder to the list
//
// # The list
//
// The list is kept in the repository, so that two runs measure the same mutants. A row has the file, the function, a text that stands
// once in the function, and what becomes of it: lines may move. A mutant that changes nothing the library promises has the reason as
// its last field, and is not run. List samples by a rule: of the places in a function where one operator can be applied it takes each
// n-th, and a hash of file, function and operator says with which it begins.
//
// # A run
//
// A run does not touch the checkout. The library is built once with all its mutants, each as a copy of its function behind a switch;
// a script changes by its text. Only a mutant outside of a function is built alone.
//
// A cell is a test, or a promise of a kind in the virtual world of test/suite. First each cell runs without a mutant, and what it runs
// of functions with mutants and of scripts is noted. Then a mutant meets the cells that reach it, those that noticed many and the
// quick ones first, until one fails, or for as long as -patience says. A cell that fails has to pass without the mutant and to fail
// again with it. A cell that takes ten times as long as without a mutant, or ends the process, has to do that again in the next one.
//
// # Processes
//
// Go builds a binary for the tests of each package: what they see of the inside, their TestMain and their kits cannot be linked
// together. So there is a process for the tests beside the code of each package, one for test/suite, and one for test/virtual, and a
// mutant meets the three in this order. Each tries all its mutants, one after the other, unless one ends it or spoils it: then a cell
// fails without the mutant, too, and the mutant is tried again in a new process. The tests that wait for real time are left out without
// -long.
//
// The results have a line for each stage of each mutant. A run that was stopped continues from them. The verdicts, a line for each
// mutant, are kept in the repository: keep reports what was killed before and lives now, and a run begins with the cell that killed a
// mutant before.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

var errUsage = errors.New("usage: mutate run|keep|summary|list [flags]")

func main() {
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func program(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("mutate "+args[0], flag.ExitOnError)
	root := flags.String("C", ".", "the root of the checkout")
	list := flags.String("list", "dev/tools/mutate/mutants.txt", "the list of mutants")
	results := flags.String("results", ".bin/mutants.txt", "the results; run adds to them and skips what has one")
	verdicts := flags.String("verdicts", "dev/tools/mutate/verdicts.txt", "what became of each mutant in the last whole run")
	var r runner
	var every int
	switch args[0] {
	case "list":
		flags.IntVar(&every, "every", 10, "take each n-th place of each operator of each function")
	case "run":
		flags.StringVar(&r.match, "match", "", "run mutants whose file begins so")
		flags.IntVar(&r.limit, "limit", 0, "run so many mutants, spread over the list; 0 for all")
		flags.IntVar(&r.parallel, "parallel", runtime.NumCPU(), "how many mutants are tried at a time")
		flags.BoolVar(&r.onlyOwn, "own", false, "run only the tests beside the code")
		flags.BoolVar(&r.onlyKnown, "known", false, "run only the cell that killed a mutant in an earlier run, and fail if it lives")
		flags.BoolVar(&r.isLong, "long", false, "run tests in their long form, which may wait for real time")
		flags.DurationVar(&r.patience, "patience", 2*time.Second, "the time without a failure after which a mutant has survived a stage, of which there are three; 0 for no limit")
	}
	_ = flags.Parse(args[1:]) // ends the program if it fails
	full, err := filepath.Abs(*root)
	if err != nil {
		return err
	}
	switch args[0] {
	case "list":
		return extend(full, *list, every, flags.Args())
	case "run":
		r.root, r.results, r.verdicts, r.hooks = full, *results, *verdicts, hooks
		return r.run(*list)
	case "keep":
		return keep(*list, *results, *verdicts)
	case "summary":
		return summarize(os.Stdout, *list, *results)
	default:
		return errUsage
	}
}
