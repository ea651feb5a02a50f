// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The first leader that an observer sees is as new as its call, though others observe already.
func TestALateObserverSeesTheNewestLeader(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	e, s := election.New(locktest.Session(t, server), "a"), locktest.Session(t, server, signalbox.WithPolling())
	for range 20 {
		observe(t, election.New(s, "a")).must()
		term := mustLead(t, e)
		require.Equal(t, term.Token(), observe(t, election.New(s, "a")).must().Token)
		require.NoError(t, term.Resign())
		require.Equal(t, noLeader, observe(t, election.New(s, "a")).must())
	}
}
