// SPDX-License-Identifier: Apache-2.0

package refusals_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2, P4, P10: a paused server refuses nothing, it is silent, as a frozen one is. Calls end with their
// contexts and leases by their deadlines, and releases continue in the background. A request that arrives
// after its not-after does nothing.
func TestAPausedServerIsASilentOne(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "the client finds a silent server by a timer of its own, and a pause of all commands ends by the server's")
	for name, pause := range map[string][]string{
		"Write": {"600000", "WRITE"}, // ended by UNPAUSE
		"All":   {"8000", "ALL"},     // which holds up UNPAUSE too, and ends by itself, long after what is tried meanwhile
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, caller)
			kept, given, short := f.lock(t, f.holder, "kept", long), f.lock(t, f.holder, "given", long), f.lock(t, f.holder, "short", brief)
			waiting := f.wait(t, f.waiter, "kept")
			f.do(t, append([]string{"CLIENT", "PAUSE"}, pause...)...)

			ctx, cancel := context.WithTimeout(t.Context(), moment)
			defer cancel()
			_, err := reentrant.New(f.other, "free").Lock(ctx)
			require.ErrorIs(t, f.secrets.RecordError(err), context.DeadlineExceeded)
			_, err = reentrant.New(f.other, "free").TryLock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			redistest.Receive(t, "the end of a lease that is not renewed", short.Done())
			require.ErrorIs(t, f.secrets.RecordError(short.Unlock()), signalbox.ErrLost)
			require.ErrorIs(t, f.secrets.RecordError(given.Unlock()), signalbox.ErrUnconfirmed)
			require.True(t, waits(waiting))
			require.NoError(t, kept.Err())

			if name == "Write" {
				f.do(t, "CLIENT", "UNPAUSE")
			}
			f.serves(t, f.holder)
			redistest.Await(t, "the release in the background", func() bool { return f.view.Free("given") })
			require.NoError(t, f.secrets.RecordError(kept.Unlock()))
			next := receive(t, "the lock", waiting)
			require.NoError(t, next.err)
			require.NoError(t, next.lease.Unlock())
			f.clean(t)
		})
	}
}

// P10: a server whose configuration takes the scripts' commands away is said to, without the arguments
// that its words repeat.
func TestAServerWithoutScriptsIsErrDenied(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string][]string{
		"EVALSHA": {"--rename-command", "EVALSHA", ""},
		"EVAL":    {"--rename-command", "EVAL", ""}, // the script has to be sent
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, secrets := redistest.Start(t, redistest.WithArgs(gone...)), locktest.NewSecrets(t)
			s := locktest.Session(t, server)
			secrets.AddSession(s)
			secrets.Add("local ", locktest.Key("a"))
			for range 2 {
				_, err := reentrant.New(s, "a").Lock(t.Context())
				require.NoError(t, refused(secrets.RecordError(err), signalbox.ErrDenied, "unknown command '"+name+"' (the server has no "+name))
				_, err = reentrant.New(s, "a").TryLock(t.Context())
				require.ErrorIs(t, secrets.RecordError(err), signalbox.ErrDenied)
			}
			require.Empty(t, server.Keys("*"))
			require.Zero(t, locktest.Undoing(s), "it is known that nothing was executed")
		})
	}
}
