// SPDX-License-Identifier: Apache-2.0

package shardmembers_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	redistest.RegisterChild("member", runMember)
	redistest.RegisterChild("writer", runWriter)
	if redistest.RunChild() {
		return
	}
	redistest.VerifyTestMain(redistest.WithParallelism(8, m))
}
