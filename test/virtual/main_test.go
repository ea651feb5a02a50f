// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// The server makes an interpreter for each script that it runs, and clearing the memory of one took longer than most scripts. One
	// that needs more than this fails.
	lua.RegistrySize, lua.CallStackSize = 1024, 32
	redistest.VerifyTestMain(redistest.ShortUnderRace(m))
}
