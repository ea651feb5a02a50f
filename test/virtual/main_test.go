// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"flag"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// underRace says that the race detector is on. The embedded server's interpreter is ten times slower with it, so the tests take their
// short form; make test-full runs the long one without it.
var underRace bool

func TestMain(m *testing.M) {
	if flag.Parse(); underRace {
		_ = flag.Set("test.short", "true")
	}
	// The server makes an interpreter for each script that it runs, and clearing the memory of one took longer than most scripts. One
	// that needs more than this fails.
	lua.RegistrySize, lua.CallStackSize = 1024, 32
	redistest.VerifyTestMain(m)
}
