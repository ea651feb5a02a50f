// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redlock"
)

// BenchmarkUncontended takes a lock over five servers and gives it back: two round trips to each of them.
func BenchmarkUncontended(b *testing.B) {
	for name, options := range map[string][]signalbox.LockOption{"plain": nil, "fenced": {redlock.Fenced()}} {
		b.Run("tokens="+name, func(b *testing.B) {
			var sessions []*signalbox.Session
			for _, s := range shared {
				sessions = append(sessions, locktest.Session(b, s))
			}
			mu := redlock.New(sessions, "a", options...)
			if err := locktest.Must(b, mu.Lock).Unlock(); err != nil { // teaches the servers the scripts
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				lease, err := mu.Lock(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := lease.Unlock(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
