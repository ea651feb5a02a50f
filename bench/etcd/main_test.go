// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("leader", runLeader)
	if redistest.RunChild() {
		return
	}
	m.Run()
}

func TestEverythingIsMeasured(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	redistest.Slow(t, "leases of killed processes have to expire")
	if _, err := etcdBinary(); err != nil {
		t.Skip(err)
	}
	var out strings.Builder
	require.NoError(t, run(&out, short(), ""))
	require.Equal(t, 8, strings.Count(out.String(), "\n| signalbox")+strings.Count(out.String(), "\n| etcd"), out.String())
	t.Log(out.String())
}
