// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/shards"
)

// A failover to a replica that was behind: the server knows the group as it was. Within seconds each shard has one live owner again,
// and the loads are even.
func TestServerThatLostTheNewestWritesGivesNoShardTwoOwners(t *testing.T) {
	t.Parallel()
	for _, age := range []time.Duration{200 * time.Millisecond, 3 * time.Second, 10 * time.Second, time.Minute} {
		for _, what := range []string{"join", "leave", "kill", "move"} {
			bubbleOfUsers(t, func(w *fixture) {
				const n = 16
				l := newShardLog(w)
				set := shards.Count(n)
				a, b, c := l.member(set, shardDrain), l.member(set, shardDrain), l.member(set, shardDrain)
				all := []*shardMember{a, b, c}
				l.untilEven(n, all...)
				time.Sleep(2 * time.Minute)
				kept := backupOf(w.T, w.redis)
				switch what {
				case "join":
					all = append(all, l.member(set, shardDrain))
				case "leave":
					go c.cancel()
					all = all[:2]
				case "kill":
					c.kill()
					all = all[:2]
				case "move":
					go c.cancel()
					all = []*shardMember{a, b, l.member(set, shardDrain)}
				}
				time.Sleep(age)
				kept.restore(w.T, w.redis)
				time.Sleep(5 * time.Second)
				for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
					require.Empty(w, l.ownedTwice(), "%s, %v", what, age)
				}
				l.untilEven(n, all...)
				require.Empty(w, l.ownedTwice(), "%s, %v", what, age)
			})
		}
	}
}

// ownedTwice returns the shards that have two live contexts.
func (l *shardLog) ownedTwice() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, runs := range l.mu.running {
		live := 0
		for _, r := range runs {
			if r.ctx.Err() == nil && !r.member.isStopped() {
				live++
			}
		}
		if live > 1 {
			names = append(names, name)
		}
	}
	return names
}
