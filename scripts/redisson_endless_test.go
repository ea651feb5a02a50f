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
	l := newJavaRW(t)
	l.reads("java:1", 1, time.Minute)
	l.reads("java:2", 1, time.Hour)
	l.enters(gos, reader, time.Minute)
	l.server.MustDo(t, "PERSIST", l.key)
	require.Equal(t, int64(1), l.leave(gos))
	require.Equal(t, map[string]string{"mode": "read", "java:1": "1", "java:2": "1"}, l.fields())
	l.requireLasts(l.key, time.Hour)
}
