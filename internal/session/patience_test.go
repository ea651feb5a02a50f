// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P6: a process that stood still finds its patience at an end in the instant in which it could read the answer. It waits
// on, for as long as it stood still and no longer than a second.
func TestPatienceThatEndsLateGoesOn(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	for by, atLeast := range map[time.Duration]time.Duration{
		0: 0, 200 * time.Millisecond: 200 * time.Millisecond, time.Hour: time.Second,
	} {
		begun := clock.Now()
		p := s.FireLate(by)
		<-p.Done()
		require.GreaterOrEqual(t, clock.Now().Mono()-begun.Mono(), atLeast)
		require.Error(t, p.Err())
		p.End()
	}
}
