// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestServerWithTLSIsSpokenToInNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithTLS())
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
	require.Equal(t, "rediss://"+s.Addr(), s.URL())

	_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	require.Error(t, err, "in plain")
	_, err = rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, TLSConfig: &tls.Config{}, Dialer: net.Dialer{Timeout: redistest.Patience}, // 5 s if unset
	})
	require.ErrorContains(t, err, "unknown authority")

	s.Restart()
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
}

func TestServerThatAsksForCertificatesRefusesOtherClients(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.WithClientCertificates())
	require.Equal(t, "PONG", s.MustDo(t, "PING"))

	without := s.TLSConfig()
	without.Certificates = nil
	_, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}, TLSConfig: without})
	require.Error(t, err)
}

func TestServerBuiltWithoutTLSSaysWhatToDo(t *testing.T) {
	script := filepath.Join(t.TempDir(), "my-server")
	text := "#!/bin/sh\necho \"Bad directive or wrong number of arguments: tls-port\" >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv(redistest.ServerEnv, script)
	_, err := redistest.StartServer(redistest.WithTLS())
	require.ErrorContains(t, err, "built without TLS")
	require.ErrorContains(t, err, redistest.ServerEnv)
}
