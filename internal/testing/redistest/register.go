// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// childEnv names the registered function that a test binary runs instead of its tests.
const childEnv = "SIGNALBOX_TEST_CHILD"

//nolint:gochecknoglobals // a process has one TestMain, which fills it
var registry struct {
	mu struct {
		sync.Mutex
		fns map[string]func(stdin io.Reader, stdout io.Writer)
	}
}

// RegisterChild makes fn available to Child. It is called in TestMain, before RunChild. The
// child exits with code 0 when fn returns; fn may exit with another.
func RegisterChild(name string, fn func(stdin io.Reader, stdout io.Writer)) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.mu.fns == nil {
		registry.mu.fns = make(map[string]func(stdin io.Reader, stdout io.Writer))
	}
	registry.mu.fns[name] = fn
}

// RunChild reports whether this process is a child, after it has run the child's function.
// TestMain returns if it is, and runs its tests if not.
func RunChild() bool {
	name, ok := os.LookupEnv(childEnv)
	if !ok {
		return false
	}
	fn := registered(name)
	if fn == nil {
		fmt.Fprintf(os.Stderr, "redistest: no child is registered as %q\n", name)
		os.Exit(2)
	}
	fn(os.Stdin, os.Stdout)
	return true
}

func registered(name string) func(stdin io.Reader, stdout io.Writer) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	return registry.mu.fns[name]
}
