// SPDX-License-Identifier: Apache-2.0

// Command print writes scripts as the server gets them, with their parts. MONITOR shows that text, and
// SLOWLOG its digest.
//
//	go run ./scripts/print lock/enter
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/signalbox-go/signalbox/scripts"
)

func main() {
	all, err := scripts.All()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, s := range all {
		if len(os.Args) == 1 {
			fmt.Println(s.SHA1, s.Name, s.Version)
		} else if slices.Contains(os.Args[1:], s.Name) {
			fmt.Print(s.Source)
		}
	}
}
