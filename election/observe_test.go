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

// P6: observers see each leader and that no process leads, in order, by whichever way they hear of it.
func TestObserversSeeEachChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		denied  string
		options []signalbox.SessionOption
	}{
		"Messages": {denied: "+@all"}, "NoSubscribe": {denied: "-subscribe"}, "NoChannel": {denied: "resetchannels"},
		"Polling": {denied: "+@all", options: []signalbox.SessionOption{signalbox.WithPolling()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", c.denied)
			s := locktest.SessionOf(t, locktest.ClientAs(t, server, "limited", "secret"), c.options...)
			changes := observe(t, election.New(s, "a"))
			e := election.New(locktest.Session(t, server), "a")
			require.Equal(t, noLeader, changes.must())
			for range 3 {
				term := mustLead(t, e)
				changes.until(leads(term, ""))
				require.NoError(t, term.SetValue(t.Context(), "x"))
				changes.until(leads(term, "x"))
				require.NoError(t, term.Resign())
				changes.until(isNoLeader)
			}
		})
	}
}

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
