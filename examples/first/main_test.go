// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

// The program works as the README shows it. It leaves nothing behind but the floor of the tokens.
func TestTheFirstProgramWorks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	program := demotest.Program(t, server.URL())
	program.Stderr = os.Stderr
	output, err := program.Output()
	require.NoError(t, err)
	require.Equal(t, "the only report at this time\n", string(output))
	require.Len(t, server.Keys("*"), 1)
}
