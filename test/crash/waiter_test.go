// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	sbnames "github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P6: waiters that are killed at the head of the queue delay no other. The lock goes past all of them at once, and their
// tickets stay: none of them was granted it.
func TestKilledWaitersDelayNoOther(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"reentrant", "fair"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const killed = 5
			w, name := newWorld(t), "killed/"+kind
			set, err := sbnames.Make(sbnames.DefaultPrefix, name)
			require.NoError(t, err)
			held, err := reentrant.New(w.session, name).Lock(t.Context())
			require.NoError(t, err)
			children := make([]*redistest.Process, killed)
			for n := range children {
				children[n] = start(t, "holder", w.server, kind, name, 30*time.Second)
			}
			// A heartbeat of each has found that it is heard.
			redistest.Await(t, "all wait", func() bool { return w.heard(t, set.Lives()) == killed })
			got := make(chan error, 1)
			go func() {
				_, err := fair.New(locktest.Session(t, w.server), name).Lock(locktest.Context(t))
				got <- err
			}()
			queue := func() int { return len(w.list(t, "ZRANGE", set.Line(), 0, -1)) }
			redistest.Await(t, "one more waits", func() bool { return queue() == killed+1 })
			for _, child := range children {
				child.Kill()
			}
			redistest.Await(t, "the server knows that they are gone", func() bool {
				return len(w.list(t, "PUBSUB", "CHANNELS", sbnames.Grants(sbnames.DefaultPrefix)+"*")) <= 1
			})
			before := queue()
			require.NoError(t, held.Unlock())
			require.NoError(t, <-got)
			require.Equal(t, killed+1, before)
			require.Equal(t, killed, queue(), "one of the killed was granted the lock")
		})
	}
}

// list returns the reply to a command that has a list.
func (w *world) list(t *testing.T, command ...any) []any {
	t.Helper()
	all, _ := w.server.MustDo(t, command...).([]any)
	return all
}

// heard returns for how many sessions the server has noted a listener in lives.
func (w *world) heard(t *testing.T, lives string) int {
	t.Helper()
	n := 0
	for _, said := range w.list(t, "HVALS", lives) {
		if text := fmt.Sprint(said); strings.HasPrefix(text, "1") && len(text) > 36 && text[36] == '+' {
			n++
		}
	}
	return n
}
