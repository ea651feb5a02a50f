// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// enterArgs is the index of the arguments of an enter in its request: EVALSHA, digest, 3, the keys.
const enterArgs = 6

// Order: a session counts as alive as soon as it has a ticket, also if it tried just before: a try is no
// sign of life.
func TestTicketComesWithASignOfLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const name = "sign"
	held := f.hold(t, name)
	proxy := redistest.NewProxy(t, f.server.Addr())
	proxy.SetMatch(locktest.RunsScript(scripts.LockEnter))
	var (
		mu    sync.Mutex
		signs []string
	)
	proxy.OnRequest(func(_ int, req []string) {
		if args := req[enterArgs:]; args[3] == "1" {
			mu.Lock()
			defer mu.Unlock()
			signs = append(signs, args[5])
		}
	})
	got := f.queueFor(t, locktest.Session(t, proxy), name, 1)
	mu.Lock()
	require.Len(t, signs, 1)
	require.NotEmpty(t, signs[0], "the ticket came without a heartbeat")
	mu.Unlock()
	require.NoError(t, held.Unlock())
	require.NoError(t, locktest.MustHave(t, got).Unlock())
}

// P4: a queue has an end from its first ticket on, also if that came without a heartbeat because one was
// sent a moment ago.
func TestAQueueHasAnEndFromItsFirstTicketOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const name = "end"
	held := f.hold(t, name)
	keys := locktest.Keys(name)
	f.server.MustDo(t, "EVAL", scripts.LockEnter.Source, 3, keys.Holder, keys.QueueKey(), keys.HeartbeatsKey(),
		strings.Repeat("a", 41)+"f", 30_000_000, strings.Repeat("9", 16), 1, 3_000_000, "", "", "PUBLISH", "nobody", 60_000)
	require.Equal(t, 1, f.view.Waiting(name))
	f.view.NoImmortals(t)
	require.NoError(t, held.Unlock())
}
