// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// enterTexts are arguments of the last enter. Most enters have the same ones, and so need no allocation for them.
type enterTexts struct {
	life, heartbeatLife text[time.Duration]
	notAfter            text[wire.Stamp]
	waiting             text[proto.Waiting]
}

// text is a value as a text, which is kept as long as the value does not change.
type text[V comparable] struct {
	value V
	kept  string
}

// of returns the text of a value, which write makes.
func (t *text[V]) of(value V, write func(V) string) string {
	if t.kept == "" || t.value != value {
		t.value, t.kept = value, write(value)
	}
	return t.kept
}

// notAfterGrain is the unit to which the not-after of an enter is rounded down, about 16 ms. So enters that follow each other
// share the text of their not-after.
const notAfterGrain wire.Stamp = 1 << 14

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
