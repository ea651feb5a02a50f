// SPDX-License-Identifier: Apache-2.0

package acquire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/acquire"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/queue"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/waitroom"
	"github.com/signalbox-go/signalbox/redisson"
)

// recheckCounter is a session.LocalHold that counts how often it is to ask the server.
type recheckCounter int

func (*recheckCounter) Evict(error) {}

// Superseded implements session.LocalHold.
func (*recheckCounter) Superseded() {}
func (c *recheckCounter) Recheck()  { *c++ }

// P2: a forced release that comes between the grant and the beginning of a hold is not missed. The session may have begun to
// listen before the reply to its request arrived.
func TestHoldThatBeginsAfterARecheckAsksTheServer(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for of, l := range map[string]struct {
		signalbox.Layout
		request queue.Request
	}{
		"Native":   {signalbox.Native(), queue.Request{Life: time.Hour, FloorTTL: "60000", Mode: "f"}},
		"Redisson": {redisson.Layout(), queue.Request{Life: time.Hour, ShareKey: waitroom.ShareKey{Policy: waitroom.Own, MaxHolds: 1}}},
	} {
		options := []signalbox.LockOption{signalbox.WithLayout(l.Layout)}
		b := acquire.Make(s, of, &proto.Reentrant, options)
		require.NoError(t, b.Ready(t.Context()))
		kind := &b.Layout.Lock.Table
		manager := acquire.NewManager((*session.Handle)(s).Session(), b.Layout, kind, nil)
		recheck := func(key string) {
			for _, h := range manager.LocalHolds(key, true) {
				h.Recheck()
			}
		}
		try := func() (queue.Hold, error) { return manager.Queues.Try(t.Context(), &b.Names, &l.request) }
		if manager.Queues == nil {
			try = func() (queue.Hold, error) { return manager.Retries.Try(t.Context(), &b.Names, &l.request) }
		}
		for name, c := range map[string]struct {
			recheck  func()
			rechecks recheckCounter
		}{
			"Forced":     {func() { recheck(b.Names.Holder) }, 1},
			"Subscribed": {func() { recheck("") }, 1},
			"Another":    {func() { recheck("another") }, 0},
		} {
			a, err := try()
			require.NoError(t, err, of)
			c.recheck()
			var rechecks recheckCounter
			a.Register(&rechecks)
			require.Equal(t, c.rechecks, rechecks, "%s: %s", of, name)
			recheck("")
			require.Equal(t, c.rechecks+1, rechecks, "%s: %s", of, name)
			_, err = a.Release(t.Context(), 0, 0)
			require.NoError(t, err, of)
			a.Done()
		}
	}
}
