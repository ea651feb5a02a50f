// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The indices of users in the result of users.
const (
	oneServer = iota
	behindSentinels
	atSentinels
	inCluster
)

// page returns the text of docs/security.md.
func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	return string(text)
}

// users returns the page's lines that make users, in order: of one server, of the data nodes behind
// sentinels, of the sentinels, of a cluster. Each is what follows "on >password".
func users(t *testing.T) [][]string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^    ACL SETUSER \w+ on >password (.*)$`).FindAllStringSubmatch(page(t), -1)
	require.Len(t, lines, 4)
	rights := make([][]string, len(lines))
	for i, line := range lines {
		rights[i] = strings.Fields(line[1])
	}
	return rights
}
