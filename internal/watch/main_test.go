// SPDX-License-Identifier: Apache-2.0

package watch_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.WithParallelism(8, m)) }
