// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P9: a slot is what the server and the client take for it.
func TestSlotIsThatOfTheServerAndTheClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	client := server.Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
	keys := []string{"", "a", "123456789", "{}", "{}a", "a{b}c", "a{b}{c}", "{{a}}", "{a", "a}", "a{}b{c}", "ä\x00\xff"}
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("sb:{order/%d}:lock", i))
	}
	for _, key := range keys {
		require.EqualValues(t, server.MustDo(t, "CLUSTER", "KEYSLOT", key), names.Slot(key), "%q", key)
		command := client.B().Get().Key(key).Build()
		require.Equal(t, command.Slot()%names.Slots, names.Slot(key), "%q", key)
	}
}
