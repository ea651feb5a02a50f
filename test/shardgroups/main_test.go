// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// server is shared by all tests, each of which has keys of its own.
var server *redistest.PooledServer

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(pooled{m}, func(s *redistest.Server) { server = redistest.Pool(s) }))
}

// pooled are tests whose connections are closed when all have run.
type pooled struct{ redistest.Tests }

// Run implements redistest.Tests.
func (p pooled) Run() int {
	defer server.Close()
	return p.Tests.Run()
}
