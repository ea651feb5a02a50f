// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"fmt"
	"time"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// lease is a thing that is timed: it embeds its entry. Fire must not block.
type lease struct {
	expiry timers.Timer
	gone   chan struct{}
}

func (l *lease) Fire() { close(l.gone) }

func Example() {
	t := timers.New()
	defer t.Close()

	l := &lease{gone: make(chan struct{})}
	l.expiry.Init(l)
	t.Schedule(&l.expiry, time.Hour)
	t.Schedule(&l.expiry, 5*time.Millisecond) // replaces the hour
	<-l.gone
	fmt.Println("expired; cancelled in time:", t.Cancel(&l.expiry))
	// Output:
	// expired; cancelled in time: false
}
