// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// connections returns how many connections the server has been asked for since its start.
func (f *fixture) connections(t *testing.T) int {
	t.Helper()
	reply := f.do(t, "INFO", "stats")
	text, err := reply.ToString()
	require.NoError(t, err)
	sum := 0
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field == "total_connections_received" || field == "rejected_connections" {
			n, err := strconv.Atoi(value)
			require.NoError(t, err)
			sum += n
		}
	}
	return sum
}

// P10: a session asks a server that refuses connections again with pauses, however many locks it holds and
// waits for.
func TestRefusedConnectionsAreNotAskedForInAHotLoop(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "counts the connections that a client asks for while leases of three seconds end")
	const wanted, held = 50, 20
	for name, r := range refusals() {
		if name != "MaxClients" && name != "PasswordRotated" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, caller)
			for i := range held {
				f.lock(t, f.holder, fmt.Sprint("held/", i), 3*time.Second)
			}
			last := f.lock(t, f.holder, "last", 3*time.Second)
			waiting := make([]<-chan lockOutcome, wanted)
			for i := range waiting {
				name := fmt.Sprint("wanted/", i)
				f.lock(t, f.other, name, long)
				waiting[i] = f.wait(t, f.waiter, name)
			}
			r.begin(t, f)
			before, begun := f.connections(t), time.Now()
			redistest.Receive(t, "the end of the leases", last.Done())
			require.ErrorIs(t, last.Err(), signalbox.ErrLost)
			requested, took := f.connections(t)-before, time.Since(begun)
			t.Logf("%d connections asked for in %v", requested, took)
			// Twenty a second for scripts, and a few for subscriptions; twice that is allowed for.
			require.Less(t, float64(requested), 40+40*took.Seconds())
			r.end(t, f)
		})
	}
}
