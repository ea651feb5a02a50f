// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// found is a finding as programs read it.
type found struct {
	Check, Status, Found, Advice string
	Nodes                        []string
}

// diagnosis runs doctor, and checks that its exit code is that of the worst finding. How quick the machine is, and what
// its clocks say, is left out.
func diagnosis(t *testing.T, url string, args ...string) []found {
	t.Helper()
	text, code := output(t, url, append([]string{"doctor", "--json"}, args...)...)
	var all []found
	var statuses []string
	for lines := json.NewDecoder(strings.NewReader(text)); lines.More(); {
		var f found
		require.NoError(t, lines.Decode(&f), text)
		statuses = append(statuses, f.Status)
		if f.Check != "round trip" && (f.Check != "clock" || f.Advice == "grant +time") {
			all = append(all, f)
		}
	}
	expected := 0
	if slices.Contains(statuses, "warning") {
		expected = 1
	}
	if slices.Contains(statuses, "problem") {
		expected = 78
	}
	require.Equal(t, expected, code, text)
	require.NotEmpty(t, all, text)
	return all
}

// bad returns the findings that are not ok.
func bad(all []found) []found {
	return slices.DeleteFunc(slices.Clone(all), func(f found) bool { return f.Status == "ok" })
}

// of returns the findings of one check.
func of(all []found, check string) []found {
	return slices.DeleteFunc(slices.Clone(all), func(f found) bool { return f.Check != check })
}

// changes returns how many changes a server has made to its data.
func changes(t *testing.T, server *redistest.Server) string {
	t.Helper()
	text, isText := server.MustDo(t, "INFO", "persistence").(string)
	require.True(t, isText)
	return regexp.MustCompile(`rdb_changes_since_last_save:\d+`).FindString(text)
}

func TestDoctorChangesNothingButTheKeysOfOneProbe(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	all := diagnosis(t, server.URL())
	require.Empty(t, bad(all))
	for _, check := range []string{"session", "server", "topology", "memory", "rights", "writes", "messages", "persistence", "connections"} {
		require.Len(t, of(all, check), 1, check)
	}
	require.Contains(t, of(all, "topology")[0].Found, server.Addr()+", one server")
	require.Empty(t, server.Keys("*"))
	require.Equal(t, "rdb_changes_since_last_save:64", changes(t, server), "32 keys, written and deleted")

	text, code := output(t, server.URL(), "doctor")
	require.Contains(t, []int{0, 1}, code) // 1 on a machine that is slow now
	require.Contains(t, text, "maxmemory-policy noeviction")
}

// A user with hardly any rights gets the rest by what doctor says, whatever the server is.
func TestDoctorSaysWhichRightsToGrant(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "locks", "on", ">geheim", "resetkeys", "resetchannels", "-@all", "+cluster|slots", "+cluster|shards")
	url := strings.Replace(server.URL(), "//", "//locks:geheim@", 1)
	all := diagnosis(t, url)
	require.Equal(t, "problem", of(all, "session")[0].Status)
	require.Contains(t, of(all, "rights")[0].Found, "evalsha, eval, time, get, set")
	require.Contains(t, of(all, "server")[0].Found, " ") // HELLO says it without a right
	for range 4 {
		for _, f := range bad(all) {
			require.NotContains(t, f.Found+f.Advice, "geheim")
			if rights, is := strings.CutPrefix(f.Advice, "ACL SETUSER locks "); is {
				rights, _, _ = strings.Cut(rights, " (")
				words := []any{"ACL", "SETUSER", "locks"}
				for word := range strings.FieldsSeq(rights) {
					words = append(words, word)
				}
				server.MustDo(t, words...)
			}
		}
		if all = diagnosis(t, url); len(bad(all)) == 0 {
			break
		}
	}
	require.Empty(t, bad(all))
	require.Empty(t, server.Keys("*"))
	start(t, url, "run", "a", "--", "true").ended(0)

	other := diagnosis(t, url, "--prefix", "shop:")
	require.Contains(t, of(other, "rights")[0].Advice, "~shop:*")
	require.Contains(t, of(other, "messages")[0].Advice, "&shop:*")
}

// Sessions do without PEXPIRETIME on a server that is too old for it, and not without ZMSCORE.
func TestDoctorNamesCommandsThatTheServerLacks(t *testing.T) {
	t.Parallel()
	if redistest.IsOld(t) {
		t.Skip("PEXPIRETIME came with Redis 7.0")
	}
	lacksOne := redistest.Start(t, redistest.WithArgs("--rename-command", "PEXPIRETIME", ""))
	require.Empty(t, bad(diagnosis(t, lacksOne.URL())))
	lacksBoth := redistest.Start(t, redistest.WithArgs("--rename-command", "ZMSCORE", "", "--rename-command", "UNLINK", ""))
	all := bad(diagnosis(t, lacksBoth.URL()))
	require.Len(t, all, 1)
	require.Equal(t, []string{"problem", "the server has no zmscore"}, []string{all[0].Status, all[0].Found})
	require.Contains(t, all[0].Advice, "docs/servers.md")
}

func TestDoctorKnowsAServerThatEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	require.Equal(t, "warning", of(diagnosis(t, server.URL()), "memory")[0].Status)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1gb")
	memory := of(diagnosis(t, server.URL()), "memory")[0]
	require.Equal(t, []string{"problem", "maxmemory-policy volatile-ttl, maxmemory 1024 MiB"}, []string{memory.Status, memory.Found})
	require.Contains(t, memory.Advice, "noeviction")
	server.MustDo(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	require.Equal(t, "ok", of(diagnosis(t, server.URL()), "memory")[0].Status)
	server.MustDo(t, "CONFIG", "SET", "maxmemory", "1mb")
	memory = of(diagnosis(t, server.URL()), "memory")[0]
	require.Equal(t, "warning", memory.Status)
	require.Contains(t, memory.Advice, "more memory")
}

func TestDoctorBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	for name, routing := range map[string]redistest.Routing{
		"FirstKey": redistest.FirstKey, "Refusing": redistest.Refusing, "OwnWords": redistest.OwnWords, "Hangup": redistest.Hangup, "OneShard": redistest.OneShard,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shards := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
			router := redistest.NewRouter(t, routing, shards...)
			all := diagnosis(t, router.URL())
			require.Empty(t, bad(all))
			expected := ", one endpoint in front of several shards"
			if name == "OneShard" {
				expected = ", one server"
			}
			require.Equal(t, router.Addr()+expected, of(all, "topology")[0].Found)
			// An endpoint that hangs up may do so under the call that deletes the keys of the probe: they end by themselves.
			redistest.Await(t, "servers without keys", func() bool { return len(shards[0].Keys("*"))+len(shards[1].Keys("*")) == 0 })
		})
	}
}

func TestDoctorOnAReplica(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica.MustDo(t, "REPLICAOF", host, port)
	session := of(diagnosis(t, replica.URL()), "session")[0]
	require.Equal(t, "problem", session.Status)
	require.Contains(t, session.Found, "it is a replica of "+primary.Addr())
}

func TestDoctorOnSentinelsAndClusters(t *testing.T) {
	t.Parallel()
	secure := redistest.Start(t, redistest.WithTLS())
	require.Empty(t, bad(diagnosis(t, secure.URL(), "--ca", authority(t, secure))))

	redistest.Slow(t, "sentinels and a cluster take seconds to start")
	sentinel := redistest.StartSentinel(t)
	all := diagnosis(t, sentinel.Sentinels()[0].URL(), "--sentinel-master", redistest.MasterSet)
	require.Empty(t, bad(all))
	require.Equal(t, sentinel.Primary(t).Addr()+", the primary that the sentinels name", of(all, "topology")[0].Found)
	require.Contains(t, of(all, "persistence")[0].Advice, "WithReplicas")

	cluster := redistest.StartCluster(t)
	all = diagnosis(t, cluster.Servers()[0].URL())
	require.Empty(t, bad(all))
	require.Equal(t, "a cluster, nodes with slots: 3", of(all, "topology")[0].Found)
	require.Contains(t, of(all, "messages")[0].Found, "SPUBLISH")
	require.Len(t, of(all, "messages")[0].Nodes, 3)
	one := cluster.Owner(t, 0)
	one.MustDo(t, "ACL", "SETUSER", "default", "-ssubscribe", "-zadd")
	all = diagnosis(t, cluster.Servers()[0].URL())
	require.Len(t, bad(all), 2, all)
	for _, f := range bad(all) {
		require.Equal(t, []string{one.Addr()}, f.Nodes)
	}
	for _, server := range cluster.Servers() {
		require.Empty(t, server.Keys("*"))
	}

	unsharded := redistest.StartCluster(t, redistest.WithArgs("--rename-command", "SPUBLISH", ""))
	all = diagnosis(t, unsharded.Servers()[0].URL())
	require.Empty(t, bad(all))
	require.Contains(t, of(all, "messages")[0].Found, "(PUBLISH)")
}

func TestDoctorThatCannotAsk(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	start(t, "redis://127.0.0.1:1", "doctor").ended(69, "127.0.0.1:1", "refused")
	wrong := start(t, strings.Replace(server.URL(), "//", "//x:geheim@", 1), "doctor")
	wrong.ended(71, "WRONGPASS")
	require.NotContains(t, wrong.output(), "geheim")
	server.MustDo(t, "ACL", "SETUSER", "default", ">geheim")
	start(t, server.URL(), "doctor").ended(71, "NOAUTH")
	start(t, server.URL(), "doctor", "--redisson").ended(2, "--redisson")
	start(t, server.URL(), "doctor", "x").ended(2, "too many")
	start(t, "", "doctor").ended(2, "SIGNALBOX_REDIS")
	start(t, "redis://h?frob=1", "doctor").ended(2, "it is number 1")
}

// The command doctor makes two clients, and reads a pipe once.
func TestDoctorReadsAPipeOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "cron", "on", ">geheim", "~*", "&*", "+@all")
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	go func() { _ = os.WriteFile(path, []byte("geheim\n"), 0o600) }() // ends when the pipe is read
	text, _ := output(t, server.URL(), "doctor", "--user", "cron", "--password-file", path)
	require.Contains(t, text, "programs can connect")
}
