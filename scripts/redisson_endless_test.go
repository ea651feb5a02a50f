// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// P8: who leaves takes nothing from readers that stay, whatever became of the hash's end; it gets that of the hold that ends last.
func TestASharedReaderThatLeavesAnEndlessLockLeavesItToTheOthers(t *testing.T) {
	t.Parallel()
	j := newJavaRW(t)
	j.reads("java:1", 1, time.Minute)
	j.reads("java:2", 1, time.Hour)
	j.enters(gos, reader, time.Minute)
	j.server.MustDo(t, "PERSIST", j.key)
	require.Equal(t, int64(1), j.leave(gos))
	require.Equal(t, map[string]string{"mode": "read", "java:1": "1", "java:2": "1"}, j.fields())
	j.requireLasts(j.key, time.Hour)
}
