// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"testing"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// later is locktest.Later for a call that returns nothing but an error.
func later(call func() error) <-chan error {
	returned := make(chan error, 1)
	go func() { returned <- call() }()
	return returned
}

// held returns the keys of locks that the server says are held.
func held(tb testing.TB, server *redistest.Server) []string {
	tb.Helper()
	var found []string
	for _, key := range server.Keys("*:lock") {
		if value, _ := server.MustDo(tb, "GET", key).(string); locktest.IsHeld(value) {
			found = append(found, key)
		}
	}
	return found
}
