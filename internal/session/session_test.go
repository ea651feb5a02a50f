// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P5: an id is never used twice: not by another session, nor for another attempt.
func TestHoldIDsAreUniqueAndNameTheirSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shape := regexp.MustCompile(`^[A-Za-z0-9_-]{41}$`)
	seen := make(map[string]bool)
	for range 3 {
		s := newSession(t, server)
		require.Len(t, s.ID(), 22)
		for range 1_000 {
			id := s.NewHold()
			require.Regexp(t, shape, id)
			require.True(t, strings.HasPrefix(id, s.ID()))
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

// P5: two restores of one snapshot share the number of the attempt, but no id.
func TestHoldIDsDifferInMoreThanTheirNumber(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	tails := make(map[string]bool)
	for range 100 {
		// The session's 22 characters and the number's 8 are followed by the random ones.
		tails[s.NewHold()[30:]] = true
	}
	require.Len(t, tails, 100)
}

// P4: a call that creates state may take effect for as long as its lease, and 3 s at most.
func TestNotAfterIsTheLeaseAndThreeSecondsAtMost(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	began := time.Now()
	require.NoError(t, s.Handshake(t.Context(), "sb:{a}:lock"))
	took := time.Since(began) // the server's time is known as well as that
	now := clock.Now()
	for life, most := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond,
		3 * time.Second:        3 * time.Second,
		24 * time.Hour:         3 * time.Second,
	} {
		// The server's clock is this host's.
		notAfter := time.UnixMicro(int64(s.NotAfter(0, now, life)))
		require.WithinDuration(t, now.Time().Add(most), notAfter, took+50*time.Millisecond)
	}
}

// P7: redistest.Patience ends by itself, shows no deadline to the client, and is reused only when it can no
// longer end.
func TestPatienceIsNeverReusedAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	p := s.Patient(5 * time.Millisecond)
	_, dated := p.Deadline()
	require.False(t, dated)
	redistest.Receive(t, "the end of redistest.Patience", p.Done())
	require.Error(t, p.Err())
	p.End()

	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for range 500 {
				s.Patient(time.Duration(i) * time.Millisecond / 4).End()
			}
		})
	}
	users.Wait()
	for range 100 {
		p := s.Patient(time.Hour)
		require.NoError(t, p.Err())
		p.End()
	}
}
