// SPDX-License-Identifier: Apache-2.0

package once_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURL is the address of a server for the examples, such as "redis://localhost:6379".
var serverURL string

func TestMain(m *testing.M) {
	// A client of a cluster asks for its nodes up to a second after one was lost, and closes what it had to
	// one that has left five seconds after that, whether it was closed itself by then or not.
	redistest.VerifyTestMain(redistest.WithParallelism(6, redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() })))
}
