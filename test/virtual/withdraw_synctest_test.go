// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/session"
)

// evictionSpy is a part of a session that counts, when Close begins to end holds, how many calls that take something back were
// queued before.
type evictionSpy struct {
	session *session.Session
	open    int
}

func (*evictionSpy) Refuse(error) {}
func (*evictionSpy) Close()       {}

func (e *evictionSpy) LocalHolds(string, bool) []session.LocalHold {
	e.open = e.session.Undoer.Pending()
	return nil
}

// A session that closes withdraws its tickets in one batch, before its holds are released: they go to other sessions.
func TestClose_WithTickets_WithdrawsThemFirst(t *testing.T) {
	t.Parallel()
	const names, tickets, latency = 20, 3, 5 * time.Millisecond
	bubble(t, func(f *fixture) {
		other, _, closeOther := f.session(f.T)
		defer closeOther()
		s, link, closeAll := f.session(f.T, signalbox.WithLogger(slog.New(slog.DiscardHandler)))
		defer closeAll()
		evicts := session.RegistryOf((*session.Handle)(s).Session(), "evicts", func() *evictionSpy { return &evictionSpy{session: (*session.Handle)(s).Session()} })
		require.NoError(f, atOnce(f.T, fair.New(s, "a")).Unlock()) // teaches the server the script
		var own, others []<-chan lockResult
		for i := range names {
			name := fmt.Sprint("a/", i)
			atOnce(f.T, fair.New(s, name))
			for range tickets {
				own = append(own, queued(f.Context(), fair.New(s, name)))
			}
			others = append(others, queued(f.Context(), fair.New(other, name)))
		}
		time.Sleep(100 * time.Millisecond)
		link.latency.Store(int64(latency))
		begun, sent := time.Now(), f.scripts.Load()
		require.Error(f, s.Close(endedContext()))
		require.GreaterOrEqual(f, evicts.open, names*tickets)
		require.Equal(f, int64(names*(tickets+1)), f.scripts.Load()-sent, "something is withdrawn twice")
		for _, waiter := range own {
			require.ErrorIs(f, (<-waiter).err, signalbox.ErrClosed)
		}
		for _, waiter := range others {
			h := <-waiter
			require.NoError(f, h.err)
			require.LessOrEqual(f, h.at.Sub(begun), 2*latency)
			require.NoError(f, h.lease.Unlock())
		}
		synctest.Wait()
	})
}
