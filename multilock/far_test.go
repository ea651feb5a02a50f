// SPDX-License-Identifier: Apache-2.0

package multilock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/multilock"
)

// Members that nobody has are had, however far their servers are: a way is no wait. It takes 1.4 s to take these of either server,
// which is longer than any round waits for a member of another session that somebody has.
func TestFreeMembersOfServersThatAreFarAreHad(t *testing.T) {
	t.Parallel()
	const hop = 100 * time.Millisecond
	var members []multilock.Member
	var proxies []*redistest.Proxy
	for i := range 2 {
		proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
		s := newSession(t, proxy)
		for n := range 7 {
			members = append(members, fair.New(s, fmt.Sprint(i, n)))
		}
		proxies = append(proxies, proxy)
	}
	both := multilock.New(members...)
	require.NoError(t, mustLock(t, both).Unlock()) // scripts and time are known
	for _, p := range proxies {
		p.SetLatency(hop)
	}
	lease := mustLock(t, both)
	for _, p := range proxies {
		p.SetLatency(0)
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
}
