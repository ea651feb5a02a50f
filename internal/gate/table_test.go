// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// gates answers how many gates there are, in use or not.
func (t *Table) gates() int {
	n := 0
	t.each(func(*Gate) { n++ })
	return n
}

func TestAKeyHasOneGateWhileItIsUsed(t *testing.T) {
	t.Parallel()
	table := NewTable()
	a, b := table.Use("a"), table.Use("b")
	require.NotSame(t, a, b)
	require.Same(t, a, table.Use("a"))
	require.Equal(t, 2, table.Len())
	table.Done(a, now)
	require.Equal(t, 2, table.Len(), "used by another still")
	table.Done(a, now)
	require.Equal(t, 1, table.Len())
	table.Done(b, now)
	require.Zero(t, table.Len())
}

// crowded answers a table in which unused gates find no room in any shard.
func crowded(t *testing.T) *Table {
	t.Helper()
	table := NewTable()
	for i := 0; table.gates() < shards*idleKept; i++ {
		table.Done(table.Use("idle"+strconv.Itoa(i)), now)
		require.Less(t, i, 100*shards*idleKept, "the shards do not fill")
	}
	return table
}

func TestUnusedGatesAreKeptWhereThereIsRoomOnly(t *testing.T) {
	t.Parallel()
	table := crowded(t)
	require.Equal(t, shards*idleKept, table.gates())
	g := table.Use("one more")
	require.Equal(t, shards*idleKept+1, table.gates())
	require.Equal(t, 1, table.Len())
	require.False(t, table.Done(g, now))
	require.Equal(t, shards*idleKept, table.gates())
	require.Zero(t, table.Len())
	require.NotSame(t, g, table.Use("one more"))
}

func TestAGateStaysAsLongAsItsLockIsToBeLeftAlone(t *testing.T) {
	t.Parallel()
	table := crowded(t)
	g := table.Use("a")
	require.True(t, g.Try())
	g.Won(now, nil)
	g.Vacate()
	g.Vacated(now.Add(StandBack))
	require.True(t, table.Done(g, now), "sweep it later")
	require.Same(t, g, table.Use("a"), "who comes in time stands back")
	table.Sweep(g, now.Add(StandBack))
	require.Same(t, g, table.Use("a"), "in use: it is not swept")
	table.Done(g, now)
	require.True(t, table.Done(g, now))
	table.Sweep(g, now.Add(StandBack-1))
	require.Equal(t, shards*idleKept+1, table.gates())
	table.Sweep(g, now.Add(StandBack))
	require.Equal(t, shards*idleKept, table.gates())
	table.Sweep(g, now.Add(StandBack))
	require.Equal(t, shards*idleKept, table.gates(), "swept twice")
	require.Zero(t, table.Len())
}

// overcrowded answers a crowded table in which the shard of key has a gate more than it keeps.
func overcrowded(t *testing.T, key string) *Table {
	t.Helper()
	table := crowded(t)
	neighbour := ""
	for i := 0; neighbour == "" || table.shard(neighbour) != table.shard(key); i++ {
		neighbour = "neighbour" + strconv.Itoa(i)
	}
	g := table.Use(neighbour)
	g.Vacated(now.Add(time.Hour))
	require.True(t, table.Done(g, now), "it stays for an hour")
	return table
}

func TestASweepThatComesLateSparesTheNextGateOfTheKey(t *testing.T) {
	t.Parallel()
	table := overcrowded(t, "a")
	old := table.Use("a")
	require.False(t, table.Done(old, now))
	young := table.Use("a")
	require.NotSame(t, old, young)
	table.Sweep(old, now)
	require.Same(t, young, table.Use("a"))
}

func TestASweepSparesAGateInUse(t *testing.T) {
	t.Parallel()
	table := overcrowded(t, "a")
	g := table.Use("a")
	table.Sweep(g, now)
	require.Same(t, g, table.Use("a"))
}

func TestEverybodyIsRefusedAndEvicted(t *testing.T) {
	t.Parallel()
	table := NewTable()
	why := errors.New("closed")
	var ws []*Waiter
	var tenants []*tenant
	for i := range 200 {
		g := table.Use(strconv.Itoa(i))
		require.True(t, g.Try())
		n := &tenant{gate: g}
		g.Won(now, n)
		ws, tenants = append(ws, queued(t, g, 1)...), append(tenants, n)
	}
	table.Recheck("7")
	table.Recheck("nobody's")
	for i, n := range tenants {
		require.Equal(t, i == 7, n.rechecks == 1)
	}
	table.RecheckAll()
	for _, n := range tenants {
		require.Positive(t, n.rechecks)
	}
	table.Refuse(why)
	for _, w := range ws {
		turn, given := taken(w)
		require.True(t, given)
		require.ErrorIs(t, turn.Err, why)
	}
	table.Evict(why) // each loses its lock in the middle of it
	for _, n := range tenants {
		require.Equal(t, []error{why}, n.evicted)
		require.Equal(t, idle, n.gate.inState())
	}
}

func TestATableCountsItsUsersInACrowd(t *testing.T) {
	t.Parallel()
	table := NewTable()
	var users sync.WaitGroup
	for u := range 8 {
		users.Go(func() {
			for i := range 5_000 {
				g := table.Use(strconv.Itoa((i*7 + u) % 3_000))
				if g.Try() {
					if i%5 == 0 {
						g.Vacated(clock.Now().Add(StandBack))
					} else {
						g.Quit()
					}
				}
				if table.Done(g, clock.Now()) {
					table.Sweep(g, clock.Now().Add(StandBack))
				}
			}
		})
	}
	users.Wait()
	require.Zero(t, table.Len())
	require.LessOrEqual(t, table.gates(), shards*(idleKept+8), "unused gates gather")
	table.each(func(g *Gate) { require.Equal(t, idle, g.inState()) })
}
