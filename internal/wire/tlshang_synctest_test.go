// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file of the URL that hangs at reading, as on a network that is away, costs a connection a quarter of its time, once. Until the
// read returns, connections use what the file said before, and the reason names the parameter.
func TestAFileThatHangsCostsAPartOfTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		path, _ := certificateFiles(t)
		f, err := readTLSFiles(t.Context(), path, "", "")
		require.NoError(t, err)
		var config tls.Config
		f.setIn(&config)
		f.authorities.bytes = func(path string) ([]byte, error) {
			<-hangs
			return os.ReadFile(path)
		}
		for _, c := range []struct {
			takes time.Duration
			says  string
		}{{500 * time.Millisecond, "the parameter ca: reading the file did not return in time"}, {0, "the parameter ca: reading the file has not returned"}} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			begun := time.Now()
			now, fault := currentTLS(ctx, &config)
			cancel()
			require.ErrorContains(t, fault, c.says)
			require.Equal(t, c.takes, time.Since(begun))
			require.Same(t, config.RootCAs, now.RootCAs)
		}
		close(hangs)
		synctest.Wait()
		_, fault := currentTLS(t.Context(), &config)
		require.NoError(t, fault)
	})
}
