// SPDX-License-Identifier: Apache-2.0

package redistest

import "time"

// Polling backs off from pollFirst to pollMost. The events polled for take 1 to 50 ms.
const (
	pollFirst = time.Millisecond / 2
	pollMost  = 16 * time.Millisecond
)

// PollUntil calls done until it returns true, and reports whether it did so within limit.
func PollUntil(limit time.Duration, done func() bool) bool {
	deadline := time.Now().Add(limit)
	pause := pollFirst
	t := time.NewTimer(pause)
	defer t.Stop()
	for !done() {
		if time.Now().After(deadline) {
			return done()
		}
		<-t.C
		pause = min(2*pause, pollMost)
		t.Reset(pause)
	}
	return true
}
