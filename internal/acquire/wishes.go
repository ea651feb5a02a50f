// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/clock"
)

const (
	// minAway is for how long a lock is not kept after the first wish in vain, and maxAway for how long at most.
	minAway, maxAway = time.Second, time.Hour
	// maxWishes is of how many locks wishes are remembered; beyond that one is forgotten.
	maxWishes = 1024
)

// wishes remembers for which locks another session asked in vain because this one kept them. Such a lock is not kept for a while: twice
// the time since the wish before. So a session that tries in regular intervals finds the lock idle at every third try at most, and ever
// more seldom. A wish counts as the first one if the one before was more than maxAway ago.
type wishes struct {
	count atomic.Int32 // the length of byKey, to be read without the lock

	mu    sync.Mutex
	byKey map[string]wish // by the key of the holder; guarded by mu
}

// wish is the last wish for one lock: when it was, and until when the lock is not kept, on the monotonic clock.
type wish struct{ at, until time.Duration }

// add records a wish for the lock of key that was in vain. A wish while the lock is not kept anyway was not in vain because of that.
func (w *wishes) add(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, away := clock.Mono(), minAway
	last, again := w.byKey[key]
	switch {
	case again && now < last.until:
		return
	case again && now-last.at <= maxAway:
		away = min(max(2*(now-last.at), minAway), maxAway)
	}
	if w.byKey == nil {
		w.byKey = make(map[string]wish)
	}
	if !again && len(w.byKey) >= maxWishes {
		w.dropLocked(now)
	}
	w.byKey[key] = wish{now, now + away}
	w.count.Store(int32(len(w.byKey))) //nolint:gosec // at most maxWishes
}

// dropLocked forgets the wishes that count no more, or else one.
func (w *wishes) dropLocked(now time.Duration) {
	for key, old := range w.byKey {
		if now-old.at > maxAway {
			delete(w.byKey, key)
		}
	}
	for key := range w.byKey {
		if len(w.byKey) < maxWishes {
			return
		}
		delete(w.byKey, key)
	}
}

// mayKeep reports whether the lock of key may be kept.
func (w *wishes) mayKeep(key string) bool {
	if w.count.Load() == 0 {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last, is := w.byKey[key]
	return !is || clock.Mono() >= last.until
}
