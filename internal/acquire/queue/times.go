// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// timeArgs are the times of an enter, as arguments of scripts.
type timeArgs struct{ life, notAfter, heartbeatLife string }

// timeArgsCache keeps the times of the last enter. Most enters need the same times, and so need no allocation.
type timeArgsCache struct {
	life, heartbeatLife time.Duration
	notAfter            wire.Stamp
	last                timeArgs
}

// argsOf returns the times as texts.
func (t *timeArgsCache) argsOf(life time.Duration, notAfter wire.Stamp, heartbeatLife time.Duration) timeArgs {
	if t.last.life == "" || t.life != life {
		t.life, t.last.life = life, micros(life)
	}
	if t.last.heartbeatLife == "" || t.heartbeatLife != heartbeatLife {
		t.heartbeatLife, t.last.heartbeatLife = heartbeatLife, micros(heartbeatLife)
	}
	if t.notAfter != notAfter {
		t.notAfter, t.last.notAfter = notAfter, notAfter.Text()
	}
	return t.last
}

// notAfterGrain is the unit to which the not-after of an enter is rounded down, about 16 ms. So enters that follow each other
// share the text of their not-after.
const notAfterGrain wire.Stamp = 1 << 14

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
