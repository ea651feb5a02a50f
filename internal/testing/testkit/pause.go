// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Pause makes the timers of the session stand still: renewals, polls, deadlines and retries.
func Pause(s *signalbox.Session) { (*session.Handle)(s).Session().Timers.Pause() }

// Resume ends Pause. What is due by then fires at once.
func Resume(s *signalbox.Session) { (*session.Handle)(s).Session().Timers.Resume() }
