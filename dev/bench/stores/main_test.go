// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("holder", holdUntilKilled)
	if redistest.RunChild() {
		return
	}
	m.Run()
}

func TestAClientHasOneName(t *testing.T) {
	t.Parallel()
	require.Len(t, clients(), 8)
}

func TestEachClientOfRedisHasARow(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	redistest.Slow(t, "leases of killed processes have to expire")
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	var out strings.Builder
	require.NoError(t, run(&out, io.Discard, short(), "Redis"))
	require.Equal(t, 8, strings.Count(out.String(), "\n| Redis"), out.String())
	t.Log(out.String())
}
