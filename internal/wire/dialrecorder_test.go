// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// The error about a port without TLS says how to get TLS. It never says to leave it out, which would send the password in the clear.
func TestErrorsOfPlainPortsNeverAdviseAgainstTLS(t *testing.T) {
	t.Parallel()
	faults := map[string]error{"a reply": tls.RecordHeaderError{Msg: "no TLS"}, "silence": context.DeadlineExceeded}
	for fault, err := range faults {
		for _, c := range []struct{ address, masterSet, says string }{
			{"seed:1", "", "name the server's TLS port"},
			{"found:1", "", "set tls-cluster yes at the nodes of the cluster"},
			{"seed:1", "main", "name the server's TLS port"},
			{"found:1", "main", "set tls-replication yes at the servers and the sentinels"},
		} {
			o := rueidis.ClientOption{InitAddress: []string{"seed:1"}, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
			o.Sentinel.MasterSet = c.masterSet
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, err }
			r := wire.NewDialRecorder(&o)
			_, dialErr := r.Dial(t.Context(), c.address, &o.Dialer, o.TLSConfig)
			require.Error(t, dialErr, fault)
			explained := r.Explain(t.Context(), errors.New("the client's own words"))
			require.ErrorContains(t, explained, c.address)
			require.ErrorContains(t, explained, c.says)
			require.NotContains(t, explained.Error(), "redis:// instead of")
		}
		require.NotContains(t, wire.Remedy(err), "without TLS")
	}
}
