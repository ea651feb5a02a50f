// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// Doctor tries the rights that docs/security.md lists for a cluster. The client has asked for the nodes before.
func TestDoctorTriesEveryRightOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	lines := regexp.MustCompile(`(?m)^    ACL SETUSER locks on .* -@all (.*\+spublish.*)$`).FindAllStringSubmatch(string(page), -1)
	require.Len(t, lines, 1)
	tried := []string{"+subscribe", "+ssubscribe", "+asking", "+cluster|slots", "+cluster|shards"}
	for _, r := range slices.Concat(scriptRights, clusterRights, directRights) {
		tried = append(tried, "+"+r.command())
	}
	require.ElementsMatch(t, strings.Fields(lines[0][1]), tried)
}

// The words of Redis 6.2, 7.0, 7.2 and 8.0, and of Valkey, as a reply and inside a script.
func TestRefusalsOfEveryServerAreRecognised(t *testing.T) {
	t.Parallel()
	for words, expected := range map[string]refusal{
		"": notRefused,
		"ERR wrong number of arguments for 'hset' command":                                        notRefused,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                       notRefused,
		"NOSCRIPT No matching script. Please use EVAL.":                                           notRefused,
		"NOPERM this user has no permissions to run the 'get' command or its subcommand":          refusedCommand,
		"NOPERM User a key has no permissions to run the 'get' command":                           refusedCommand,
		"The user executing the script can't run this command or subcommand script: x":            refusedCommand,
		"@user_script: 1: The user executing the script can't run this command or subcommand\n":   refusedCommand,
		"@user_script: 1: The user executing the script can't access at least one of the keys":    refusedKey,
		"@user_script: 1: Unknown Redis command called from Lua script\n":                         refusedUnknown,
		"ERR ACL failure in script: User locks has no permissions to run the 'get' command":       refusedCommand,
		"NOPERM this user has no permissions to access one of the keys used as arguments":         refusedKey,
		"The user executing the script can't access at least one of the keys mentioned":           refusedKey,
		"ERR ACL failure in script: No permissions to access a key":                               refusedKey,
		"NOPERM No permissions to access a channel":                                               refusedChannel,
		"The user executing the script can't publish to the channel mentioned in the command":     refusedChannel,
		"ERR unknown command 'ZMSCORE', with args beginning with: 'x' ":                           refusedUnknown,
		"ERR Unknown Redis command called from script script: f69a5badc9e1d6bc79e660767d6e14da42": refusedUnknown,
	} {
		require.Equal(t, expected, parseRefusal(words), words)
	}
}

// A server that ends meanwhile has granted nothing.
func TestDoctorTakesNoSilenceForARight(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t, func(o *rueidis.ClientOption) { o.DisableRetry = true })
	e := newExamination(client, rueidis.ClientOption{}, defaultPrefix)
	e.findNodes(t.Context())
	require.Len(t, e.nodes, 1)
	require.Equal(t, statusOK, e.checkRights(t.Context(), e.nodes[0])[0].Status)
	server.Kill()
	for _, found := range [][]finding{e.checkRights(t.Context(), e.nodes[0]), e.nodes[0].checkTimes(t.Context())} {
		require.Len(t, found, 1)
		require.Equal(t, statusProblem, found[0].Status)
		require.Contains(t, found[0].Found, "no reply")
	}
	require.Equal(t, statusWarning, e.checkMessages(t.Context(), e.nodes[0]).Status)
	e.checkTopology(t.Context())
	require.Contains(t, e.findings[0].Found, "one server or one endpoint in front of several")
}

func TestTimesThatAreWorthAWord(t *testing.T) {
	t.Parallel()
	for median, status := range map[time.Duration]string{time.Millisecond: statusOK, 100 * time.Millisecond: statusWarning, time.Second: statusProblem} {
		require.Equal(t, status, roundTripFinding(median).Status)
	}
	for _, distance := range []time.Duration{-2 * time.Second, 2 * time.Second} {
		require.Equal(t, statusWarning, clockFinding(distance, time.Millisecond, true, nil).Status)
		require.Equal(t, statusOK, clockFinding(distance, 2*time.Second, true, nil).Status, "the reply took as long")
	}
	require.Contains(t, clockFinding(-2*time.Second, time.Millisecond, true, nil).Found, "2s behind this host")
	require.Equal(t, statusWarning, clockFinding(0, 0, false, nil).Status)
}

func TestWhatAServerSaysOfItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		info                 serverInfo
		product, persistence string
	}{
		{serverInfo{"redis_version": "8.0.2", "aof_enabled": "1"}, "Redis 8.0.2", statusOK},
		{serverInfo{"redis_version": "7.2.4", "valkey_version": "9.1.0", "aof_enabled": "1", "aof_last_write_status": "err"}, "Valkey 9.1.0", statusWarning},
		{serverInfo{"redis_version": "7.4.0", "dragonfly_version": "df-v1.30", "aof_enabled": "0", "connected_slaves": "2"}, "Dragonfly df-v1.30", statusOK},
	} {
		n := &node{info: c.info}
		require.Equal(t, c.product, n.checkServer(t.Context()).Found)
		require.Equal(t, c.persistence, n.checkPersistence()[0].Status)
	}
	require.Empty(t, (&node{}).checkPersistence())
	require.Equal(t, statusWarning, (&node{}).checkMemory().Status)
	require.Equal(t, statusWarning, (&node{info: serverInfo{"maxclients": "100", "connected_clients": "90"}}).checkConnections()[0].Status)
	require.Equal(t, statusOK, (&node{info: serverInfo{"maxclients": "100", "connected_clients": "89"}}).checkConnections()[0].Status)
}
