// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

func TestASharedReaderHasAKeyInTheSlotOfTheLock(t *testing.T) {
	t.Parallel()
	server := serverOfOwn(t)
	for name, key := range map[string]string{"a": "{a}:", "{a}b": "{a}b:", "a{b": "a{b:"} {
		server.MustDo(t, "EVAL", scripts.Load("redisson/rwlock-acquire", 1).Source, 1, name, gos, 60_000, later, "PUBLISH", "c", "1", "r")
		require.Equal(t, "1", server.MustDo(t, "GET", key+gos+":rwlock_timeout:1"), name)
	}
}
