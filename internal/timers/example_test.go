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

// timedLease is a thing that is timed: it embeds its entry.
type timedLease struct {
	expiry timers.Timer
	name   string
}

func (l *timedLease) Fire() { fmt.Println(l.name, "expired") }

func ExampleWheel() {
	w := timers.NewWheel(64)
	for i, name := range []string{"red", "green", "blue"} {
		l := &timedLease{name: name}
		l.expiry.Init(l)
		w.Schedule(&l.expiry, int64(300-100*i))
	}
	for w.Len() > 0 { // the driver
		now, _ := w.Next() // and sleeps until then
		for _, e := range w.Advance(now, nil) {
			fmt.Print("at ", e.Due(), ": ")
			e.Firer().Fire()
		}
	}
	// Output:
	// at 100: blue expired
	// at 200: green expired
	// at 300: red expired
}
