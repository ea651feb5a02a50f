// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURL is where the examples find a server.
var serverURL string

func TestMain(m *testing.M) {
	// A client of a cluster asks for its nodes up to a second after one was lost.
	redistest.VerifyTestMain(redistest.WithParallelism(6, redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() })))
}
