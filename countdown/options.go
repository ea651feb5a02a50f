// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

const (
	// MaxCount is the greatest number that a round counts down from. Its ids stand in one key until it opens.
	MaxCount = 10_000_000
	// MaxID is the length of the longest id, in bytes.
	MaxID = 512
	// DefaultKeep is how long a round is kept after its last use unless Keep says otherwise.
	DefaultKeep = 24 * time.Hour
	// minKeep is more than there is between two looks of any waiter, which keep the round.
	minKeep = time.Minute
	maxKeep = 30 * 24 * time.Hour
)

// Option sets something for one latch; New takes it. A bad value is the error of every call on that
// latch, and of its Check.
type Option func(*settings)

type settings struct {
	keep time.Duration
	err  error // the first bad option
}

// Keep sets for how long the rounds that this latch starts are kept on the server after their last use:
// a count-down, or a look of somebody who waits, in whatever process. What was not used for that long is forgotten.
// From a minute to 30 days; 24 hours by default.
func Keep(d time.Duration) Option {
	return func(s *settings) {
		switch {
		case d >= minKeep && d <= maxKeep:
			s.keep = d
		case s.err == nil:
			s.err = fmt.Errorf("%w: to keep rounds for %v: it must be from %v to %v", errs.ErrBadOption, d, minKeep, maxKeep)
		}
	}
}
