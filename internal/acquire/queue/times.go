// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// timeArgs are the times of an enter, as arguments of scripts.
type timeArgs struct{ life, notAfter, heartbeatLife string }

// timeArgsCache has the times of the last enter. Most enters need the same ones, and no allocation.
type timeArgsCache struct {
	life, heartbeatLife time.Duration
	notAfter            wire.Stamp
	last                timeArgs
}

// argsOf returns these times as texts.
func (t *timeArgsCache) argsOf(life time.Duration, notAfter wire.Stamp, living time.Duration) timeArgs {
	if t.last.life == "" || t.life != life {
		t.life, t.last.life = life, micros(life)
	}
	if t.last.heartbeatLife == "" || t.heartbeatLife != living {
		t.heartbeatLife, t.last.heartbeatLife = living, micros(living)
	}
	if t.notAfter != notAfter {
		t.notAfter, t.last.notAfter = notAfter, notAfter.Text()
	}
	return t.last
}

// notAfterGrain is what the not-after of an enter is rounded down to, so that enters which follow each other share its text:
// 16 ms of 3 s.
const notAfterGrain wire.Stamp = 1 << 14

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
