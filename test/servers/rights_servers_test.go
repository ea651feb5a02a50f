// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

const (
	// failoverAfter is how long no server may be silent before another takes over: no machine is as busy. Where a
	// failover is wanted here it is asked for.
	failoverAfter = 5 * time.Minute
	// watcher is the user of the sentinels, as the page calls it.
	watcher        = "watch"
	rightsPassword = "the-password-of-locks"
)

// servers is servers that a client sees as one, and their operator.
type servers struct {
	redistest.Topology

	data, watch []*redistest.Server
	admin       rueidis.Client
}

func newServers(t *testing.T, topology redistest.Topology) *servers {
	t.Helper()
	s := &servers{Topology: topology, data: topology.Servers()}
	if topology, ok := topology.(*redistest.Sentinel); ok {
		s.watch = topology.Sentinels()
		s.data = slices.DeleteFunc(s.data, func(d *redistest.Server) bool { return slices.Contains(s.watch, d) })
		for _, server := range s.watch {
			allow(t, server, watcher, users(t)[atSentinels])
		}
	}
	for _, server := range s.data {
		server.MustDo(t, "CONFIG", "SET", "acllog-max-len", "10000")
	}
	s.admin = topology.Client(t, locktest.Steady)
	return s
}

// as returns the servers as a program sees them: by the user of that name, and by watcher of its sentinels.
func (s *servers) as(user string) serversUser {
	return serversUser{locktest.User{Server: s, Name: user, Password: rightsPassword}}
}

// serversUser is the servers as a program sees them.
type serversUser struct{ locktest.User }

// Client shadows that of locktest.User.
func (s serversUser) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return s.User.Client(tb, func(o *rueidis.ClientOption) {
		mod(o)
		o.ConnWriteTimeout = redistest.Patience // no wire fails here, however slow the machine is
		o.Sentinel.Username, o.Sentinel.Password = watcher, rightsPassword
	})
}

// allow gives a user its rights on one server.
func allow(t *testing.T, server *redistest.Server, user string, rights []string) {
	t.Helper()
	words := []any{"ACL", "SETUSER", user, "on", ">" + rightsPassword}
	for _, right := range rights {
		words = append(words, right)
	}
	server.MustDo(t, words...)
}

// allow gives a user its rights on all servers with data.
func (s *servers) allow(t *testing.T, user string, rights []string) {
	t.Helper()
	for _, server := range s.data {
		allow(t, server, user, rights)
	}
}

// denials returns what the servers have noted that the user, or watcher, was denied.
func (s *servers) denials(t *testing.T, user string) (noted []string) {
	t.Helper()
	for _, server := range s.data {
		noted = append(noted, denials(t, server, user)...)
	}
	for _, server := range s.watch {
		noted = append(noted, denials(t, server, watcher)...)
	}
	return noted
}

func denials(t *testing.T, server *redistest.Server, user string) (noted []string) {
	t.Helper()
	log, _ := server.MustDo(t, "ACL", "LOG", "10000").([]any)
	for _, entry := range log {
		words, _ := entry.([]any)
		fields := make(map[string]string)
		for i := 0; i+1 < len(words); i += 2 {
			fields[fmt.Sprint(words[i])] = fmt.Sprint(words[i+1])
		}
		if fields["username"] == user {
			noted = append(noted, fields["reason"]+" "+fields["object"])
		}
	}
	return noted
}

// query sends a command of the operator's on a key, wherever that is.
func (s *servers) query(command, key string, args ...string) rueidis.RedisResult {
	return s.admin.Do(context.Background(), s.admin.B().Arbitrary(command).Keys(key).Args(args...).Build())
}

// do is ask, and fails the test if the server refuses.
func (s *servers) do(t *testing.T, command, key string, args ...string) {
	t.Helper()
	require.NoError(t, s.query(command, key, args...).Error(), "%s %s", command, key)
}

// text returns what a command on a key returns, all of it in one text, or "" if there is nothing.
func (s *servers) text(t *testing.T, command, key string, args ...string) string {
	t.Helper()
	reply, err := s.query(command, key, args...).ToAny()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(t, err, "%s %s", command, key)
	return fmt.Sprint(reply)
}

// channels returns the channels that have subscribers and any of these texts in their names.
func (s *servers) channels(t *testing.T, texts ...string) (found []string) {
	t.Helper()
	for _, server := range s.data {
		for _, which := range []string{"CHANNELS", "SHARDCHANNELS"} {
			all, _ := server.MustDo(t, "PUBSUB", which).([]any)
			for _, channel := range all {
				if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(fmt.Sprint(channel), text) }) {
					found = append(found, fmt.Sprint(channel))
				}
			}
		}
	}
	return found
}
