// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("adder", runAdder)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(redistest.WithParallelism(4, m))
}
