// SPDX-License-Identifier: Apache-2.0

package proto_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/scripts"
)

var lockCalls = []callRow{
	{scripts.LockEnter, &proto.Enter{}},
	{scripts.RWLockEnter, &proto.EnterShared{Terms: named(&proto.RWTerms{})}},
	{scripts.SemaphoreEnter, &proto.EnterShared{Terms: named(&proto.PermitTerms{})}},
	{scripts.LockRequeue, &proto.Requeue{}},
	{scripts.LockFree, &proto.Free{}},
	{scripts.LockLeave, &proto.Leave{}},
	{scripts.RWLockLeave, &proto.LeaveShared{}},
	{scripts.SemaphoreLeave, &proto.LeaveShared{}},
}

// named returns the arguments of a part of a call, each the name of its field.
func named(part call) []string {
	fillWithNames(reflect.ValueOf(part).Elem())
	return part.AppendTo(nil)
}

func TestEnterPacksWhatTheHeaderSays(t *testing.T) {
	t.Parallel()
	var waiting proto.Waiting
	fillWithNames(reflect.ValueOf(&waiting).Elem())
	_, parts := argNames(scripts.LockEnter)
	require.Equal(t, parts, strings.Fields(waiting.Text()))
}
