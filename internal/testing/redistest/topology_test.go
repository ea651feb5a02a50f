// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// runs requires that the client runs a script that writes.
func runs(t *testing.T, c rueidis.Client, key string) {
	t.Helper()
	script := c.B().Eval().Script("return redis.call('INCR', KEYS[1])").Numkeys(1).Key(key).Build()
	n, err := c.Do(t.Context(), script).AsInt64()
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
}

// slowStart skips a test of several servers under -short.
func slowStart(t *testing.T, name string) {
	t.Helper()
	switch name {
	case "sentinel", "cluster":
		redistest.Slow(t, "servers of a topology take up to two seconds to agree")
	}
}

func TestEveryTopologyServesBothProtocolsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, s := range redistest.Topologies() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			slowStart(t, s.Name)
			top, err := s.Start(redistest.WithFailoverAfter(time.Minute))
			require.NoError(t, err)
			defer top.Close()
			require.Equal(t, s.Name, top.Name())
			for _, p := range redistest.Protocols() {
				runs(t, top.Client(t, p.Set), p.Name)
			}

			var pids []int
			var dirs []string
			for _, server := range top.Servers() {
				pids, dirs = append(pids, server.PID()), append(dirs, workingFolder(t, server.PID()))
			}
			top.Servers()[0].Freeze()
			top.Close()
			for i := range pids {
				require.False(t, alive(pids[i]))
				require.NoDirExists(t, dirs[i])
			}
		})
	}
}

func TestEveryTopologyDiesWithItsKilledParent(t *testing.T) {
	t.Parallel()
	for _, s := range redistest.Topologies() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			slowStart(t, s.Name)
			child := redistest.Child(t, "topology", "TOPOLOGY="+s.Name)
			line, err := child.ReadLine(time.Minute)
			require.NoError(t, err)
			words := strings.Fields(line)
			require.NotEmpty(t, words)
			child.Kill()
			for i := 0; i < len(words); i += 2 {
				var pid int
				_, err := fmt.Sscan(words[i], &pid)
				require.NoError(t, err, line)
				requireGone(t, pid, words[i+1])
			}
		})
	}
}

func TestOptionOfASingleServerIsRefusedBySeveral(t *testing.T) {
	t.Parallel()
	for _, option := range []redistest.Option{redistest.WithTLS(), redistest.WithClientCertificates()} {
		_, err := redistest.RunSentinel(option)
		require.ErrorContains(t, err, "single servers")
		_, err = redistest.RunCluster(option)
		require.ErrorContains(t, err, "single servers")
	}
}

// A server that is down keeps its port: others that reserve one are not given it.
func TestPortOfAKilledServerIsNotGivenToAnother(t *testing.T) {
	t.Parallel()
	s, err := redistest.StartServer()
	require.NoError(t, err)
	s.Kill()
	_, err = net.ListenPacket("udp", s.Addr()) // what reserves it
	require.Error(t, err)
	s.Restart()
	s.Close()
	eventually(t, func() bool { // another test may have been given it
		free, err := net.ListenPacket("udp", s.Addr())
		return err == nil && free.Close() == nil
	}, "the port is not released")
}
