// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// server is shared by the tests that change nothing but keys of their own.
var server *redistest.PooledServer

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(withPool{m}, func(s *redistest.Server) { server = redistest.Pool(s) }))
}

// pool has the servers that no test uses now, of those that tests may change. It has room for as many as were started: a test
// that waited for room would keep those from running that make it.
var pool struct {
	sync.Mutex
	idle []*redistest.PooledServer
}

// withPool are tests whose servers are closed when all have run.
type withPool struct{ redistest.Tests }

// Run implements redistest.Tests.
func (w withPool) Run() int {
	defer func() {
		server.Close()
		for _, s := range pool.idle {
			s.Close()
			s.Server.Close()
		}
	}()
	return w.Tests.Run()
}

// serverOfOwn returns a server that no other test uses until this one ends. The test may fill its memory and write any key.
func serverOfOwn(tb testing.TB) *redistest.PooledServer {
	tb.Helper()
	s := idleServer()
	if s == nil {
		started, err := redistest.StartServer()
		require.NoError(tb, err)
		s = redistest.Pool(started)
	}
	tb.Cleanup(func() {
		s.MustDo(tb, "CONFIG", "SET", "maxmemory", 0)
		s.MustDo(tb, "FLUSHALL")
		pool.Lock()
		defer pool.Unlock()
		pool.idle = append(pool.idle, s)
	})
	return s
}

// idleServer takes a server from the pool, or returns nil.
func idleServer() *redistest.PooledServer {
	pool.Lock()
	defer pool.Unlock()
	last := len(pool.idle) - 1
	if last < 0 {
		return nil
	}
	s := pool.idle[last]
	pool.idle = pool.idle[:last]
	return s
}
