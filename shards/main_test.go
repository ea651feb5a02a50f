// SPDX-License-Identifier: Apache-2.0

package shards_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURL is the address of a server for the examples, such as "redis://localhost:6379".
var serverURL string

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithParallelism(6, redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() })))
}
