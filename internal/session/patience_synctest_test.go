// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// noServer is a client that nothing is asked of.
type noServer struct{ rueidis.Client }

// Mode implements rueidis.Client.
func (noServer) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// P6: a process that stood still finds its patience over in the instant in which it could read the reply. It
// continues to wait for as long as it stood still, and at most a second.
func TestPatienceThatEndsLateIsExtended(t *testing.T) {
	t.Parallel()
	for by, more := range map[time.Duration]time.Duration{
		0: 0, 200 * time.Millisecond: 200 * time.Millisecond, time.Hour: time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := session.New(noServer{}, session.Defaults(), false)
			begun := time.Now()
			p := session.FireLate(s, by)
			<-p.Done()
			require.WithinRange(t, time.Now(), begun.Add(more), begun.Add(more+10*time.Millisecond))
			require.Error(t, p.Err())
			p.End()
			require.NoError(t, s.Close(t.Context()))
		})
	}
}

// A wall clock that is set forward does not shorten the patience with a server.
func TestPatienceLastsThoughTheTimersCountASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer timers.Skew(0)
		s := session.New(noServer{}, session.Defaults(), false)
		begun := time.Now()
		p := s.Patient(time.Second)
		synctest.Wait()
		timers.Skew(time.Hour)
		<-p.Done()
		require.WithinRange(t, time.Now(), begun.Add(time.Second), begun.Add(time.Second+10*time.Millisecond))
		p.End()
		require.NoError(t, s.Close(t.Context()))
	})
}
