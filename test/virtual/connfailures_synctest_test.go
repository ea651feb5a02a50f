// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// Two sessions at one address have functions for credentials of their own. Only the session whose function fails logs that: it is
// the one whose connections are concerned. So it is if the options were tuned already.
func TestOnlyTheSessionWhoseConnectionsFailLogsThat(t *testing.T) {
	t.Parallel()
	for _, tuned := range []bool{false, true} {
		bubbleOfUsers(t, func(f *fixture) {
			o := newOutside(f, false)
			o.rotate("a")
			right := func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
				return rueidis.AuthCredentials{Username: "teller", Password: "a"}, nil
			}
			dial := func(credentials func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error)) (*signalbox.Session, *logLines) {
				logger, lines := logged()
				options := rueidis.ClientOption{
					InitAddress: []string{"shared:1"}, ForceSingleClient: true, AlwaysRESP2: true, AuthCredentialsFn: credentials,
					DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return f.Dial() },
				}
				if tuned {
					signalbox.Tune(&options)
				}
				s, err := signalbox.DialWith(f.Context(), options, signalbox.WithLogger(logger))
				require.NoError(f, err)
				f.Cleanup(func() { _ = s.Close(endedContext()) })
				return s, lines
			}
			failing, says := dial(o.credentials)
			other, silent := dial(right)
			use := func() {
				for range 150 {
					require.NoError(f, locked(f.Context(), failing))
					require.NoError(f, locked(f.Context(), other))
					time.Sleep(100 * time.Millisecond)
				}
			}
			use()
			o.fail(func() (rueidis.AuthCredentials, error) { return rueidis.AuthCredentials{}, errors.New("throttled") })
			use()
			o.fail(nil)
			use()
			requireLines(f, says.String(), refreshed)
			requireLines(f, silent.String(), nil)
		})
	}
}
