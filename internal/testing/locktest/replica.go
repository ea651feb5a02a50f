// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// StartReplica starts a replica of a server, and returns when it has all that the server has.
func StartReplica(tb testing.TB, primary *redistest.Server) *redistest.Server {
	tb.Helper()
	primary.MustDo(tb, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := redistest.Start(tb)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(tb, err)
	replica.MustDo(tb, "REPLICAOF", host, port)
	redistest.Await(tb, "the link to the replica", func() bool {
		info, _ := replica.MustDo(tb, "INFO", "replication").(string)
		return strings.Contains(info, "master_link_status:up")
	})
	redistest.Await(tb, "a replica that has everything", func() bool {
		return Integer(tb, primary.MustDo(tb, "WAIT", 1, 100)) == 1
	})
	return replica
}
