// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// P1, P3: the replies to a plain acquire mean what the page of the protocol says. test/virtual has the plain acquire as a whole.
func TestPlainAcquire_RepliesMeanWhatTheVectorsSay(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../scripts/testdata/vectors.json")
	require.NoError(t, err)
	var vectors struct {
		Plain []struct {
			What, Stamp, Set, Get string
			Lease                 int64 `json:"lease_ms"`
			End, PTTL             int64
			Held                  bool
		}
	}
	require.NoError(t, json.Unmarshal(text, &vectors))
	require.NotEmpty(t, vectors.Plain)
	for _, v := range vectors.Plain {
		life, left := time.Duration(v.Lease)*time.Millisecond, time.Duration(v.PTTL)*time.Millisecond
		require.Equal(t, v.End, plainEnd(wire.ParseStamp(v.Stamp), life), v.What)
		reply := wire.PlainReply{IsSet: v.Set == "OK", IsOwn: v.PTTL >= 0 && v.Get == "own", Left: left}
		require.Equal(t, v.Held, isPlainHold(&reply, life), v.What)
	}
}
