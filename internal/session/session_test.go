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
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
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

// The zero Session is invalid, and its calls return that error.
func TestZeroSessionIsAnError(t *testing.T) {
	t.Parallel()
	var s session.Session
	require.ErrorIs(t, s.Valid(), errs.ErrBadOption)
	require.ErrorIs(t, s.Ready(), errs.ErrBadOption)
	require.NoError(t, s.Close(t.Context()))
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

// P7: an invalid session starts nothing and returns an error.
func TestSessionWithoutAClientIsNotReady(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, session.New(nil, session.Defaults(), true).Ready(), errs.ErrBadOption)
	var none *session.Session
	require.ErrorIs(t, none.Ready(), errs.ErrBadOption)
	_, err := none.Names(layout.Native(), "a")
	require.ErrorIs(t, err, errs.ErrBadOption)
	require.NoError(t, none.Close(t.Context()))
}

// P6: Close waits for every call and hold that was counted in, and none is counted in after it
// began.
func TestCloseWaitsForBegunCalls(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	const begun = 10
	for range begun {
		require.NoError(t, s.Begin())
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = s.Close(t.Context())
	}()
	redistest.Await(t, "Close", func() bool { return s.Ready() != nil })
	require.ErrorIs(t, s.Ready(), errs.ErrClosed)
	require.ErrorIs(t, s.Begin(), errs.ErrClosed)
	require.NoError(t, s.EvictionError())
	for range begun {
		select {
		case <-closed:
			t.Fatal("Close did not wait")
		default:
		}
		s.End()
	}
	redistest.Receive(t, "Close", closed)
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
