// SPDX-License-Identifier: Apache-2.0

package countdown

import (
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
)

const (
	// MaxCount is the greatest number that a round counts down from. One key holds its ids until it opens.
	MaxCount = 10_000_000
	// MaxID is the length of the longest id, in bytes.
	MaxID = 512
	// DefaultKeep is how long a round is kept after its last use unless Keep says otherwise.
	DefaultKeep = 24 * time.Hour
	// minKeep is more than the pause between two polls of any waiter, which keep the round.
	minKeep = time.Minute
	maxKeep = 30 * 24 * time.Hour
)

// Keep sets how long the server keeps the rounds that this latch starts after their last use, in
// whatever process: a count-down, a Count, or a poll of a waiter. After a Count or a poll it may be
// a sixtieth less. A round that was not used for that long is forgotten. d is from a minute to 30
// days; 24 hours by default. In a layout of others Keep is ErrBadOption: keys there never end.
func Keep(d time.Duration) signalbox.LockOption {
	return session.Option(proto.OptionKeep, session.CheckRange("to keep rounds for %v", d, minKeep, maxKeep), func(l *session.LockSettings) { l.Keep = d })
}
