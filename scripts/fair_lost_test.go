// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P1, P10: a hand-off that finds neither the holder key nor a living session writes a key that
// every script can read, so that the name stays usable.
func TestALostHolderKeyLeavesTheNameUsable(t *testing.T) {
	t.Parallel()
	const pages = 256 + 1024 // the tickets that one search reads
	for name, c := range map[string]struct {
		dead    int // tickets of sessions that died
		ago     int64
		forgets bool // what is known of these sessions is lost too
		finds   string
	}{
		"NoTicketIsLeft": {dead: 1, ago: 2 * keepsPlace, finds: released(0)},
		"TicketsAreKept": {dead: 3, ago: second, finds: fairFree(0)},
		"SearchGoesOn":   {dead: pages + 100, ago: 2 * keepsPlace, finds: fairFree(0)},
		"LivesAreLost":   {dead: pages + 100, ago: 2 * keepsPlace, forgets: true, finds: fairFree(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			p.dead(c.dead, noon-c.ago)
			if c.forgets {
				p.server.MustDo(t, "DEL", p.lives)
			}
			p.looks(we, ours)
			require.Equal(t, c.finds, p.value())
			p.requireEnds()

			require.Equal(t, []any{int64(0)}, p.ask(scripts.HolderDescribe, []string{p.key}))
			reply := p.ask(scripts.ReentrantAcquire, []string{p.key}, claimOf(theirs), lease, digits(p.clock), "")
			require.NotContains(t, reply, "?", "another kind cannot read %q", c.finds)
			if c.finds == released(0) {
				p.server.MustDo(t, "SET", p.key, c.finds)
			}
			require.NotEqual(t, int64(-2), p.tries(theirs)[0], "%q is no key of ours", p.value())
		})
	}
}
