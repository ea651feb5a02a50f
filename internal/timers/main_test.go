// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimer is a thing with an entry, as users have it.
type testTimer struct {
	Timer
	fire func()
}

func (tt *testTimer) Fire() { tt.fire() }

func newTestTimer(fire func()) *testTimer {
	timer := &testTimer{fire: fire}
	timer.Init(timer)
	return timer
}
