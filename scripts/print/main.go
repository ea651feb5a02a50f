// SPDX-License-Identifier: Apache-2.0

// Command print writes scripts as the server gets them, with their parts. MONITOR shows that text, and
// SLOWLOG its digest.
//
//	go run ./scripts/print lock/enter
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/signalbox-go/signalbox/scripts"
)

func main() {
	all, err := scripts.All()
	if err == nil {
		err = write(os.Stdout, all, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write writes the newest version of the scripts with these names; without names it lists all.
func write(w io.Writer, all []*scripts.Script, names []string) error {
	newest := make(map[string]*scripts.Script)
	for _, s := range all { // versions rise
		newest[s.Name] = s
		if len(names) == 0 {
			if _, err := fmt.Fprintln(w, s.SHA1, s.Name, s.Version); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		s := newest[name]
		if s == nil {
			return fmt.Errorf("there is no script %q", name)
		}
		if _, err := io.WriteString(w, s.Source); err != nil {
			return err
		}
	}
	return nil
}
