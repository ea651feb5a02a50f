// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// calm is how long a node may not be heard of before its replica takes over: no test here wants that.
const calm = 5 * time.Minute

// listenersOf returns how many clients listen to a channel, at all nodes, by the command that counts them.
func listenersOf(t *testing.T, cluster *redistest.Cluster, command, channel string) (n int64) {
	t.Helper()
	for _, node := range cluster.Servers() {
		reply, _ := node.MustDo(t, "PUBSUB", command, channel).([]any)
		require.Len(t, reply, 2)
		n += locktest.Integer(t, reply[1])
	}
	return n
}

// P9: Java acquires a lock whose name is in two slots, since that needs one key, and then cannot release it. In Go it is no name.
func TestJavaCannotUnlockANameInTwoSlots(t *testing.T) {
	t.Parallel()
	programOf(t, "redisson4")
	cluster := redistest.StartCluster(t, redistest.WithFailoverAfter(calm))
	eachRelease(t, func(t *testing.T, release string) {
		p, s := newClusterPeer(t, release, cluster, "auto"), newSession(t, cluster)
		for _, name := range []string{"a{b", "a{}b", "a}b", "{}", "}{"} { // their key and their channel are in two slots
			require.ErrorIs(t, reentrant.New(s, name).Check(), signalbox.ErrBadName, name)
			name += release
			p.must(t, "a", "lock", name, time.Hour.Milliseconds())
			require.Contains(t, refused(t, p.send("a", "unlock", name)), "CROSSSLOT", name)
			owner := cluster.Owner(t, cluster.Slot(t, name))
			require.Equal(t, map[string]string{p.owner(t, "a"): "1"}, hash(t, owner, name))
		}
	})
}
