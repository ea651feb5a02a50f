// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// TestMain lets the program have few tenants: a busy machine serves thousands too slowly.
func TestMain(m *testing.M) {
	if err := os.Setenv(sizeVariable, "60"); err != nil {
		panic(err)
	}
	demotest.Main(m, main)
}

func TestTenantsAreDividedAndFollowed(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a new group grants nothing for two seconds")
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Regexp(t, `^60 tenants: 3 processes work on \[20 20 20\]
57 tenants: 3 processes work on \[19 19 19\]
requests of tenant-0030 go to \S+:8080, and it gets SIGTERM
57 tenants: 2 processes work on \[28 29\]
requests of tenant-0030 go to \S+:8080, with a greater token: true
$`, strings.Join(lines, "\n")+"\n")
	})
}
