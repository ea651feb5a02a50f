// SPDX-License-Identifier: Apache-2.0

package redlock_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// serverURLs are where the examples find servers, such as "redis://localhost:6379".
var serverURLs [3]string

// shared are the servers of all tests that do no harm to them. The examples use the first three.
var shared [5]*redistest.Server

func TestMain(m *testing.M) {
	tests := redistest.WithParallelism(4, m)
	for i := range shared {
		tests = redistest.WithServer(tests, func(s *redistest.Server) {
			if err := locktest.Establish(s); err != nil {
				panic(err)
			}
			if shared[i] = s; i < len(serverURLs) {
				serverURLs[i] = s.URL()
			}
		})
	}
	redistest.VerifyTestMain(tests)
}
