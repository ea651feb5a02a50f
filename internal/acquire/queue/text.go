// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strconv"
	"time"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// times are the times of an enter, as arguments of scripts.
type times struct{ life, notAfter, living string }

// textOf writes them in one allocation.
func textOf(life time.Duration, notAfter wire.Stamp, living time.Duration) times {
	var room [64]byte
	text := strconv.AppendInt(room[:0], life.Microseconds(), 10)
	first := len(text)
	text = notAfter.Append(text)
	second := len(text)
	all := string(strconv.AppendInt(text, living.Microseconds(), 10))
	return times{life: all[:first], notAfter: all[first:second], living: all[second:]}
}

func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }
