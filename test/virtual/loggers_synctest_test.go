// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// logHandler is the handler of a program's logger: do is its own code.
type logHandler struct {
	slog.Handler

	do func()
}

func (logHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h logHandler) Handle(context.Context, slog.Record) error {
	h.do()
	return nil
}

// P2, P4, P7: a handler of the log that blocks, panics, or calls the session, ends no lease and no program, collects no
// goroutines, and holds Close up no longer than its context.
func TestAnyHandlerOfTheLogHoldsUpNothing(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(s *signalbox.Session, block <-chan struct{}){
		"Blocks": func(_ *signalbox.Session, block <-chan struct{}) { <-block },
		"Panics": func(*signalbox.Session, <-chan struct{}) { panic("a bug") },
		"Exits":  func(*signalbox.Session, <-chan struct{}) { runtime.Goexit() },
		"Locks": func(s *signalbox.Session, _ <-chan struct{}) {
			if lease, err := reentrant.New(s, "log").Lock(context.Background()); err == nil {
				_ = lease.Unlock()
			}
		},
		"Closes": func(s *signalbox.Session, _ <-chan struct{}) { _ = s.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				t := f.T
				c, _ := f.client(t)
				block, called := make(chan struct{}), 0
				var s *signalbox.Session
				s = signalbox.NewSession(c, signalbox.WithCloseGrace(time.Second), signalbox.WithLogger(slog.New(logHandler{do: func() {
					if called++; name != "Closes" || called == 4 {
						do(s, block)
					}
				}})))
				kept, err := reentrant.New(s, "kept", signalbox.WithRenewedLease(10*time.Second)).Lock(t.Context())
				require.NoError(t, err)
				time.Sleep(time.Second) // it listens for a ForceUnlock
				atFirst := resting()
				for range 30 {
					lease, err := reentrant.New(s, "lost").Lock(t.Context())
					if err != nil {
						require.Equal(t, "Closes", name)
						break
					}
					f.redis.Del(locktest.Key("lost"))
					time.Sleep(2 * time.Second) // the loss is worth a line
					require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
				}
				time.Sleep(5 * time.Second) // the grace of a Close
				require.Equal(t, name == "Closes", kept.Err() != nil)
				require.LessOrEqual(t, resting(), atFirst+1)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				began := time.Now()
				_ = s.Close(ctx)
				require.LessOrEqual(t, time.Since(began), 2*time.Second+slack)
				close(block)
				time.Sleep(time.Minute)
				if name == "Exits" {
					require.Greater(t, called, 1, "the lines after it are written")
				}
				c.Close()
			})
		})
	}
}
