// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process that is being started has every descriptor of this one until it becomes another program.
func TestProxyRefusesThoughAnotherProcessHasItsListener(t *testing.T) {
	t.Parallel()
	p, err := StartProxy("127.0.0.1:1")
	require.NoError(t, err)
	defer p.Close()
	for range 3 {
		another, err := p.mu.listener.File()
		require.NoError(t, err)
		p.Refuse()
		_, err = net.Dial("tcp", p.Addr())
		require.ErrorContains(t, err, "connection refused")
		require.NoError(t, another.Close())
		p.Accept()
		c, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}
