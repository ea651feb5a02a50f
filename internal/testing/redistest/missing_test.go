// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// ending is a test that takes note of how it ended.
type ending struct {
	testing.TB

	failed, skipped string
}

func (*ending) Helper() {}

func (e *ending) Fatal(args ...any) {
	e.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

func (e *ending) Skip(args ...any) {
	e.skipped = fmt.Sprint(args...)
	runtime.Goexit()
}

// Without a server one test says in one line what to install, and the others of its package are skipped.
func TestMissingServerIsReportedOnce(t *testing.T) {
	t.Setenv(ServerEnv, "no-such-server")
	var m missingServer
	var failed, skipped int
	for range 3 {
		e := &ending{TB: t}
		var test sync.WaitGroup
		test.Go(func() { m.end(e) })
		test.Wait()
		if e.failed != "" {
			failed++
			require.Contains(t, e.failed, "no-such-server")
			require.Contains(t, e.failed, "apt-get install redis-server")
			require.NotContains(t, e.failed, "\n")
		}
		if strings.Contains(e.skipped, "no Redis server") {
			skipped++
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, 2, skipped)
}
