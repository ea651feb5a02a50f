// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// printFaults prints the faults of test/suite/faults.txt, by the package that was mended: what the mend does, its commit, and the tests
// that show the fault.
func (p *proof) printFaults(to io.Writer) error {
	list, err := os.ReadFile(filepath.Join(p.root, "test", "suite", "faults.txt"))
	if err != nil {
		return err
	}
	byPackage := make(map[string][]string) // the mends, each once
	shown := make(map[string][]string)     // the tests by mend
	for line := range strings.Lines(string(list)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(f) != 4 {
			continue
		}
		mend := f[1] + "  " + f[0]
		if shown[mend] == nil {
			name, _, _ := strings.Cut(f[0], ":")
			byPackage[name] = append(byPackage[name], mend)
		}
		shown[mend] = append(shown[mend], f[2]+": "+f[3])
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(byPackage)) {
		_, _ = fmt.Fprintf(to, "%s: %d\n", name, len(byPackage[name]))
		for _, mend := range byPackage[name] {
			_, _ = fmt.Fprintf(to, "  %s\n", mend)
			for _, test := range shown[mend] {
				_, _ = fmt.Fprintf(to, "      %s\n", test)
			}
		}
		total += len(byPackage[name])
	}
	_, err = fmt.Fprintf(to, "%d faults were mended, each with a test that shows it: on the commit before the mend that test fails.\n", total)
	return err
}
