// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild(actorName, act)
	if redistest.RunChild() {
		return
	}
	// The embedded server makes an interpreter for each script that it runs. With this much memory it is made quickly; a script
	// that needs more fails.
	lua.RegistrySize, lua.CallStackSize = 2200, 32
	var tests redistest.Tests = testsInWorlds{m}
	if slices.Equal(worlds(), []string{virtual}) {
		tests = redistest.ShortUnderRace(tests)
	} else {
		tests = redistest.WithParallelism(80, tests) // real time passes for all at once
	}
	redistest.VerifyTestMain(tests)
}

// testsInWorlds runs the tests, and then closes the servers that cells of real worlds share.
type testsInWorlds struct{ tests *testing.M }

// Run implements redistest.Tests.
func (t testsInWorlds) Run() int {
	defer closeServers()
	return t.tests.Run()
}

// Each promise holds for each kind in each world.
func TestPromises(t *testing.T) { //nolint:paralleltest // a cell that has to be alone runs beside no other test either
	only, ran := os.Getenv("SIGNALBOX_CELL"), false
	for _, c := range cells(worlds()) {
		if !strings.HasPrefix(c.name(), only) {
			continue
		}
		ran = true
		t.Run(c.name(), func(t *testing.T) {
			if !c.promise.Alone {
				t.Parallel()
			}
			c.run(t)
		})
	}
	require.True(t, ran, "no cell has a name that begins with %q", only)
}
