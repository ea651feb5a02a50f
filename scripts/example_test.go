// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/signalbox-go/signalbox/scripts"
)

// What SLOWLOG shows as EVALSHA of a digest is the script with that SHA1.
func Example() {
	digest := scripts.LockLeave.SHA1 // from SLOWLOG
	all, err := scripts.All()
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range all {
		if s.SHA1 == digest {
			title, _, _ := strings.Cut(s.Source, "\n")
			fmt.Println(s.Name, s.Version)
			fmt.Println(title)
		}
	}
	// Output:
	// lock/leave 1
	// -- lock/leave v1
}
