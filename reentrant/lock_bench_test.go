// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// BenchmarkUncontended takes a lock and gives it back, each goroutine one of its own: two round trips.
func BenchmarkUncontended(b *testing.B) {
	server := redistest.Start(b)
	for _, goroutines := range []int{1, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			s := locktest.SteadySession(b, server)
			locks := make([]*reentrant.Lock, goroutines)
			for i := range locks {
				locks[i] = reentrant.New(s, fmt.Sprint(i))
				lockAndUnlock(b, locks[i]) // teaches the server the scripts
			}
			b.ReportAllocs()
			share(b, goroutines, func(i int) { lockAndUnlock(b, locks[i]) })
		})
	}
}

func lockAndUnlock(b *testing.B, mu *reentrant.Lock) {
	lease, err := mu.Lock(context.Background())
	if err == nil {
		err = lease.Unlock()
	}
	if err != nil {
		b.Error(err)
	}
}

// share lets goroutines do the work b.N times in all.
func share(b *testing.B, goroutines int, work func(i int)) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	b.ResetTimer()
	for i := range goroutines {
		go func() {
			for left.Add(-1) >= 0 {
				work(i)
			}
			done <- struct{}{}
		}()
	}
	for range goroutines {
		<-done
	}
	b.StopTimer()
}

// BenchmarkBind makes a context that ends with the lease, and lets go of it.
func BenchmarkBind(b *testing.B) {
	lease := locktest.Must(b, reentrant.New(locktest.SteadySession(b, redistest.Start(b)), "a").Lock)
	for name, hang := range map[string]func(signalbox.Lease, context.Context) context.Context{
		"Bind": signalbox.Lease.Bind, "Enter": signalbox.Lease.Enter,
	} {
		b.Run("method="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				_ = hang(lease, ctx)
				cancel()
			}
		})
	}
	_ = lease.Unlock()
}

// BenchmarkRequest takes a lock as a request handler does: a lock object and a context with a deadline for each call.
func BenchmarkRequest(b *testing.B) {
	s := locktest.SteadySession(b, redistest.Start(b))
	for _, names := range []int{1, 1 << 20} {
		b.Run(fmt.Sprintf("names=%d", names), func(b *testing.B) {
			name := make([]string, min(names, 1<<12))
			for i := range name {
				name[i] = fmt.Sprint("fresh/", i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				lease, err := reentrant.New(s, name[i%len(name)]).Lock(ctx)
				if err == nil {
					err = lease.Unlock()
				}
				cancel()
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
