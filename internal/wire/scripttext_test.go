// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// sendHellos runs n scripts at once, each for a key of its own.
func sendHellos(t *testing.T, r *wire.Runner, n int) *sync.WaitGroup {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			reply, err := r.Run(t.Context(), hello(fmt.Sprint("key", i)))
			if err != nil || reply.Int(0) != 1 {
				t.Errorf("%v, %v", reply.Int(0), err)
			}
		})
	}
	return &all
}

// All calls arrive before the first text does, and the server refuses every one of them.
func TestCallsThatAreRefusedTogetherSendOneText(t *testing.T) {
	t.Parallel()
	const calls = 200
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	r := runner(t, proxy)
	_, err := r.Run(t.Context(), force("key")) // connects
	require.NoError(t, err)
	proxy.ResetCount()
	for range 2 { // the second time after the server has forgotten the script
		sent := server.SentBy(func() {
			server.Freeze()
			all := sendHellos(t, r, calls)
			redistest.Await(t, "the calls", func() bool { return proxy.Requests() == calls })
			server.Thaw()
			all.Wait()
		})
		require.Equal(t, int64(1), sent["eval"])
		server.MustDo(t, "SCRIPT", "FLUSH")
		proxy.ResetCount()
	}
}
