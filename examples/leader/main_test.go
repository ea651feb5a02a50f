// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestTheNextProcessLeads(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		all := strings.Join(lines, "\n") + "\n"
		require.Regexp(t, `^requests go to \S+:8080, with a greater token: true
\S+ gets SIGTERM
requests go to \S+:8080, with a greater token: true
\S+ is killed
requests go to \S+:8080, with a greater token: true
\S+ gets SIGTERM
no process leads
$`, all)
	})
}
