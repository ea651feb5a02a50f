// SPDX-License-Identifier: Apache-2.0

package once

import (
	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Flights returns for how many keys calls of the session wait.
func Flights(s *signalbox.Session) int {
	r := runRegistryOf((*session.Handle)(s).Session())
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.flights)
}
