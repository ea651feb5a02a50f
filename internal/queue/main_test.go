// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	refuseStep = func(from, next attemptState) { panic(fmt.Sprintf("an attempt goes from %v to %v", from, next)) }
	redistest.VerifyTestMain(redistest.WithParallelism(8, m))
}
