// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

const (
	// minAway is for how long a lock is not kept after the first recall in vain, and maxAway for how long at most.
	minAway, maxAway = time.Second, time.Hour
	// maxRecalls is of how many locks recalls are remembered; beyond that one is forgotten.
	maxRecalls = 1024
)

// recalls remembers the locks that another session wanted in vain because this one kept them. Such a lock is not kept for a while: twice
// the time since the recall before. So a session that tries in regular intervals finds the lock idle at every third try at most, and ever
// more seldom. A recall counts as the first one if the one before was more than maxAway ago.
type recalls struct {
	count atomic.Int32 // the length of byKey, to be read without the lock

	mu    sync.Mutex
	byKey map[string]recall // by the key of the holder; guarded by mu
}

// recall is the last recall in vain of one lock: when it was, and until when the lock is not kept, on the monotonic clock.
type recall struct{ at, until time.Duration }

// add records a recall for the lock of key that was in vain. A recall while the lock is not kept anyway was not in vain because of that.
func (r *recalls) add(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, away := timers.Mono(), minAway
	last, again := r.byKey[key]
	switch {
	case again && now < last.until:
		return
	case again && now-last.at <= maxAway:
		away = min(max(2*(now-last.at), minAway), maxAway)
	}
	if r.byKey == nil {
		r.byKey = make(map[string]recall)
	}
	if !again && len(r.byKey) >= maxRecalls {
		r.dropLocked(now)
	}
	r.byKey[key] = recall{now, now + away}
	r.count.Store(int32(len(r.byKey))) //nolint:gosec // at most maxRecalls
}

// dropLocked forgets the recalls that count no more, or else one.
func (r *recalls) dropLocked(now time.Duration) {
	for key, old := range r.byKey {
		if now-old.at > maxAway {
			delete(r.byKey, key)
		}
	}
	for key := range r.byKey {
		if len(r.byKey) < maxRecalls {
			return
		}
		delete(r.byKey, key)
	}
}

// mayKeep reports whether the lock of key may be kept.
func (r *recalls) mayKeep(key string) bool {
	if r.count.Load() == 0 {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, is := r.byKey[key]
	return !is || timers.Mono() >= last.until
}
