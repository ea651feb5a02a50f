// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// times are the times of an enter, as arguments of scripts.
type times struct{ life, notAfter, living string }

// texts has the times of the last enter. Most enters need the same ones, and no allocation.
type texts struct {
	life, living time.Duration
	notAfter     wire.Stamp
	last         times
}

// of returns these times as texts.
func (t *texts) of(life time.Duration, notAfter wire.Stamp, living time.Duration) times {
	if t.last.life == "" || t.life != life {
		t.life, t.last.life = life, micros(life)
	}
	if t.last.living == "" || t.living != living {
		t.living, t.last.living = living, micros(living)
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
