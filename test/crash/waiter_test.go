// SPDX-License-Identifier: Apache-2.0

package crash_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sbnames "github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// killedWaiters are waiters of one kind that are killed behind a hold, and one of another kind that comes behind them.
type killedWaiters struct {
	held, killed, next locktest.Primitive
	beside             bool // the next one tries while the first one holds
}

func allKilledWaiters() []killedWaiters {
	reentrant, fair, writer, reader, permit := locktest.Reentrant(), locktest.Fair(), locktest.Writer(), locktest.Reader(), locktest.Permit()
	return []killedWaiters{
		{held: reentrant, killed: reentrant, next: fair},
		{held: reentrant, killed: fair, next: fair},
		{held: permit, killed: permit, next: permit},
		{held: writer, killed: writer, next: writer},
		{held: writer, killed: reader, next: writer},
		{held: reader, killed: writer, next: reader, beside: true},
	}
}

// P6: waiters that are killed at the head of the queue delay no other. The lock goes past all of them at once, and their
// tickets stay: none of them was granted it.
func TestKilledWaitersDelayNoOther(t *testing.T) {
	t.Parallel()
	for _, c := range allKilledWaiters() {
		t.Run(c.held.Name+" then "+c.killed.Name+" then "+c.next.Name, func(t *testing.T) {
			t.Parallel()
			const killed = 5
			f, name := newFixture(t), "killed"
			line, behind := c.killed.Queue(name), c.next.Queue(name)
			held, err := c.held.New(f.session, name).Lock(t.Context())
			require.NoError(t, err)
			children := make([]*redistest.Process, killed)
			for n := range children {
				children[n] = start(t, "holder", f.server, c.killed.Name, name, 30*time.Second)
			}
			// A heartbeat of each has recorded that its session listens.
			redistest.Await(t, "all wait", func() bool { return f.listeners(t, c.killed.Heartbeats(name)) == killed })
			got, waiting := make(chan error, 1), killed
			next := c.next.New(locktest.Session(t, f.server), name)
			queue := func(line string) int { return len(f.list(t, "ZRANGE", line, 0, -1)) }
			if !c.beside {
				before := queue(behind)
				go func() {
					_, err := next.Lock(locktest.Context(t))
					got <- err
				}()
				redistest.Await(t, "one more waits", func() bool { return queue(behind) == before+1 })
				if behind == line {
					waiting++
				}
			}
			for _, child := range children {
				child.Kill()
			}
			redistest.Await(t, "the server knows that they are gone", func() bool {
				return len(f.list(t, "PUBSUB", "CHANNELS", sbnames.Grants(sbnames.DefaultPrefix)+"*")) <= 1
			})
			require.Equal(t, waiting, queue(line), "the killed keep their tickets")
			if c.beside {
				_, err := next.TryLock(t.Context())
				require.NoError(t, err)
				return
			}
			require.NoError(t, held.Unlock())
			require.NoError(t, <-got)
			require.Equal(t, killed, queue(line), "one of the killed was granted the lock")
		})
	}
}

// list returns the reply to a command that has a list.
func (f *fixture) list(t *testing.T, command ...any) []any {
	t.Helper()
	all, _ := f.server.MustDo(t, command...).([]any)
	return all
}

// listeners returns for how many sessions the server has noted a listener in its heartbeats.
func (f *fixture) listeners(t *testing.T, heartbeats string) int {
	t.Helper()
	n := 0
	for _, said := range f.list(t, "HVALS", heartbeats) {
		if text := fmt.Sprint(said); strings.HasPrefix(text, "1") && len(text) > 36 && text[36] == '+' {
			n++
		}
	}
	return n
}
