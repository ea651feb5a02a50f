// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	if !isWorker() {
		redistest.VerifyTestMain(m)
	}
}
