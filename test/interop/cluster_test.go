// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/test/kit"
)

// calm is how long a node may not be heard of before its replica takes over: no test here wants that.
const calm = 5 * time.Minute

// listenersOf answers how many clients listen to a channel, at all nodes, by the command that counts them.
func listenersOf(t *testing.T, cluster *redistest.Cluster, command, channel string) (n int64) {
	t.Helper()
	for _, node := range cluster.Servers() {
		reply, _ := node.MustDo(t, "PUBSUB", command, channel).([]any)
		require.Len(t, reply, 2)
		here, _ := reply[1].(int64)
		n += here
	}
	return n
}

// P1, P6: in a cluster too whoever waits is woken by whoever holds, as long as both sides tell by the same kind of channel.
func TestEveryWaiterIsWokenInACluster(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	for mode, c := range map[string]struct {
		option  signalbox.LockOption
		command string
	}{
		"auto": {signalbox.Redisson(), "SHARDNUMSUB"},
		"off":  {signalbox.RedissonPlain(), "NUMSUB"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			eachLine(t, func(t *testing.T, line string) {
				peer := startPeer(t, line, "cluster", "redis://"+cluster.Servers()[0].Addr(), strconv.FormatInt(watchdog.Milliseconds(), 10), mode)
				newSide := func() *goSide {
					return &goSide{
						session: kit.Session(t, cluster, signalbox.WithDefaults(c.option, signalbox.RenewedLease(time.Hour))),
						leases:  make(map[string]signalbox.Lease),
					}
				}
				sides := map[string][2]side{
					"java": {javaSide{peer, "holder"}, javaSide{peer, "waiter"}},
					"go":   {newSide(), newSide()},
				}
				for holder := range sides {
					for waiter := range sides {
						from, to := sides[holder][0], sides[waiter][1]
						for round := range 5 {
							key := fmt.Sprintf("%s-%s-%s-%s-%d", mode, line, holder, waiter, round)
							took(t, from.take(key))
							taken := to.take(key)
							kit.Await(t, kit.Patience, "a waiter listens", func() bool {
								return listenersOf(t, cluster, c.command, "redisson_lock__channel:{"+key+"}") == 1
							})
							require.Empty(t, taken, "taken while it is held")
							from.giveBack(t, key)
							took(t, taken)
							to.giveBack(t, key)
						}
					}
				}
			})
		})
	}
}

// P9: what Redisson could not release in a cluster is no name there.
func TestANameThatRedissonSplitsIsNoneInACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	s := kit.Session(t, cluster, signalbox.WithDefaults(signalbox.Redisson()))
	for _, name := range []string{"a{b", "a{}b", "a}b"} {
		require.ErrorIs(t, reentrant.New(s, name).Check(), signalbox.ErrBadName, name)
	}
	for _, name := range []string{"a", "{a}:b"} {
		lease, err := reentrant.New(s, name).Lock(context.Background())
		require.NoError(t, err, name)
		require.NoError(t, lease.Unlock())
	}
}
