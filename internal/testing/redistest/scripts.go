// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"

	"github.com/signalbox-go/signalbox/scripts"
)

// commandRunner runs commands on a server; *Server is one.
type commandRunner interface {
	MustDo(tb testing.TB, args ...any) any
}

// LoadScripts makes every script known to the server, so that each call of one is one request.
func LoadScripts(tb testing.TB, server commandRunner) {
	tb.Helper()
	all, err := scripts.All()
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range all {
		server.MustDo(tb, "SCRIPT", "LOAD", s.Source)
	}
}
