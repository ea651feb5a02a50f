// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

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
