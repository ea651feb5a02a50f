// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var redlockCalls = []callRow{
	{scripts.RedlockAcquire, &proto.RedlockAcquire{}},
	{scripts.RedlockRelease, &proto.RedlockRelease{}},
	{scripts.RedlockFence, &proto.RedlockFence{}},
}

// The call of redlock/heal ends in a part for each hold.
func TestHealHasTheArgumentsOfTheHeader(t *testing.T) {
	t.Parallel()
	var call struct {
		Head proto.RedlockHeal
		Hold proto.RedlockHealHold
	}
	fillWithNames(reflect.ValueOf(&call).Elem())
	names, parts := argNames(scripts.RedlockHeal)
	require.Equal(t, append(names, parts...), call.Hold.AppendTo(call.Head.AppendTo(nil)))
}
