// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"io"
	"os"
)

// childEnv names the registered function that a test binary runs instead of its tests.
const childEnv = "SIGNALBOX_TEST_CHILD"

// children has the functions that RegisterChild was given.
//
//nolint:gochecknoglobals // a process has one TestMain, which fills it
var children = make(map[string]func(stdin io.Reader, stdout io.Writer))

// RegisterChild makes fn available to Child. It is called in TestMain, before RunChild. The
// child exits with code 0 when fn returns; fn may exit with another.
func RegisterChild(name string, fn func(stdin io.Reader, stdout io.Writer)) { children[name] = fn }

// RunChild reports whether this process is a child, after it has run the child's function.
// TestMain returns if it is, and runs its tests if not.
func RunChild() bool {
	name, isChild := os.LookupEnv(childEnv)
	if !isChild {
		return false
	}
	fn := children[name]
	if fn == nil {
		fmt.Fprintf(os.Stderr, "redistest: no child is registered as %q\n", name)
		os.Exit(2)
	}
	fn(os.Stdin, os.Stdout)
	return true
}
