// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// These tests look at what RCountDownLatch does on a server. docs/redisson-protocol.md says what they see.

func TestJavaPublishesTheStateOfALatch(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		p := newPeer(t, release, server)
		published := receive(t, server, "redisson_countdownlatch__channel__{a}", "redisson_countdownlatch__channel__{{b}:c}")
		p.must(t, "a", "latch-start", "a", 2)
		require.Equal(t, "redisson_countdownlatch__channel__{a} 1", next(t, published), "a count begins")
		p.must(t, "a", "latch-start", "a", 2)
		p.must(t, "a", "latch-down", "a")
		p.must(t, "a", "latch-down", "a")
		require.Equal(t, "redisson_countdownlatch__channel__{a} 0", next(t, published), "it is open; nothing was published before")
		p.must(t, "a", "latch-down", "a")
		p.must(t, "a", "latch-delete", "a")
		p.must(t, "a", "latch-start", "{b}:c", 1)
		require.Equal(t, "redisson_countdownlatch__channel__{{b}:c} 1", next(t, published), "braces are added even if there are some")
		require.Equal(t, "true", p.must(t, "a", "latch-delete", "{b}:c"))
		require.Equal(t, "redisson_countdownlatch__channel__{{b}:c} 1", next(t, published), "it is deleted")
		require.Empty(t, published)
	})
}
