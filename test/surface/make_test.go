// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// A red module hides no other: each is tested, and make fails at the end. The tests are a command that fails.
func TestMakeTestsEveryModuleBesideARedOne(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	out, err := exec.Command("make", "-C", "../..", "test", "gotest=false", "MODULES=tools/mutate bench/etcd").CombinedOutput()
	require.Error(t, err)
	for _, line := range []string{"--- tools/mutate: ", "--- bench/etcd: ", "failed: tools/mutate bench/etcd\n"} {
		require.Contains(t, string(out), line)
	}
}
