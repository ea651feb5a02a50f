// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// What a client of a cluster that met an error or a redirection still does after its Close, for some seconds.
	redistest.VerifyTestMain(redistest.WithParallelism(24, m))
}
