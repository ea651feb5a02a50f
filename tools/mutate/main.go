// SPDX-License-Identifier: Apache-2.0

// Command mutate measures what the tests notice: it changes the library in one place at a time, and
// runs the tests.
//
//	mutate list     write a new list of mutants
//	mutate run      test the mutants of the list
//	mutate summary  print the score of a run by package
//
// # The list
//
// The list is kept in the repository, so that two runs measure the same mutants. Those of Go come
// from gremlins, those of Lua from this program. Both are sampled with a fixed seed.
//
// # A run
//
// A run does not touch the checkout. Each package is built once with all its mutants, each behind a
// switch, and a variable of the environment says which one is on. A mutant outside a function is
// built alone.
//
// A Go mutant is run in stages: the tests of its package, then test/surface, then test/kinds, then
// test/virtual without its long tests, then these. The stages of a Lua mutant are the tests of scripts in files
// named like the script, then all tests of scripts, then test/walks and test/virtual. The first test
// that fails kills the mutant. A failure counts only if the same test fails again with the mutant
// and passes without it.
//
// The results have a line for each stage of each mutant. A run that was stopped continues from
// them.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

const usage = "usage: mutate list|run|summary [flags]"

func main() {
	if err := program(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func program(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%s", usage)
	}
	flags := flag.NewFlagSet("mutate "+args[0], flag.ExitOnError)
	root := flags.String("C", ".", "the root of the checkout")
	list := flags.String("list", "tools/mutate/mutants.txt", "the list of mutants")
	results := flags.String("results", ".bin/mutation/results.txt", "the results; run adds to them and skips what has one")
	switch args[0] {
	case "list":
		seed := flags.Uint64("seed", 1, "the seed of the sample")
		count := flags.Int("count", 320, "how many mutants of each language, about")
		parse(flags, args, root)
		return makeList(*root, *list, *seed, *count)
	case "run":
		var r runner
		flags.StringVar(&r.only, "only", "", "go or lua; empty for both")
		flags.IntVar(&r.limit, "limit", 0, "run so many mutants, spread over the list; 0 for all")
		flags.IntVar(&r.parallel, "parallel", 3, "how many mutants are tested at a time")
		flags.IntVar(&r.stages, "stages", 0, "run only so many stages; 0 for all")
		flags.BoolVar(&r.short, "short", false, "run the tests with -short")
		parse(flags, args, root)
		r.root, r.results = *root, *results
		return r.run(*list)
	case "summary":
		parse(flags, args, root)
		return summarize(os.Stdout, *list, *results)
	default:
		return fmt.Errorf("%s", usage)
	}
}

func parse(flags *flag.FlagSet, args []string, root *string) {
	_ = flags.Parse(args[1:]) // ends the program if it fails
	if full, err := filepath.Abs(*root); err == nil {
		*root = full
	}
}

// makeList samples the mutants of both languages and writes the list.
func makeList(root, name string, seed uint64, count int) error {
	work, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer remove(work)
	ofGo, err := goMutants(root, work)
	if err != nil {
		return err
	}
	check, err := newChecker(root)
	if err != nil {
		return err
	}
	ofLua, err := luaMutants(root)
	if err != nil {
		return err
	}
	const perPackage, perScript = 3, 2
	list := append(
		sample(ofGo, mutant.group, seed, count, perPackage, check.compiles),
		sample(ofLua, func(m mutant) string { return m.File }, seed, count, perScript, func(mutant) bool { return true })...)
	header := fmt.Sprintf("# Mutants for mutate run: file, line, column in the text, kind, what becomes what, text of the line.\n"+
		"# mutate list -seed %d -count %d sampled them from %d in Go and %d in Lua. Later lists would differ: keep this one.\n", seed, count, len(ofGo), len(ofLua))
	return writeList(name, header, list)
}
