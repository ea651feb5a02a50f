// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if !isWorker() {
		goleak.VerifyTestMain(m)
	}
}
