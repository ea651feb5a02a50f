// SPDX-License-Identifier: Apache-2.0

package failover_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// Too many would be failovers of their own.
	redistest.VerifyTestMain(redistest.WithParallelism(6, m))
}
