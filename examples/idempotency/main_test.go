// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestCopiesOfARequestGetItsReply(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		require.Equal(t, []string{
			"a request: 201 payment 1 of 10",
			"sent again: 201 payment 1 of 10",
			"with another body: 422 this Idempotency-Key belongs to another request",
			"the same key of another user: 201 payment 2 of 10",
			"one that fails: 502 try 3 failed",
			"sent again: 502 try 4 failed",
			"without a key: 400 an Idempotency-Key of up to 255 bytes, and a body of up to 64 KiB",
			"sent again while it runs: 409 this request is being done",
			"the slow one: 201 payment 5 of slow",
			"and after that: 201 payment 5 of slow",
		}, lines)
	})
}
