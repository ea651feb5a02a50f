// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// listen serves connections, each by serve, until the test ends. It returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			running.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// otherProgram is a server of another protocol: it greets, and replies to what it reads first.
func otherProgram(greeting, reply string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, greeting)
		if _, err := conn.Read(make([]byte, 1)); err != nil || reply == "" {
			_, _ = io.Copy(io.Discard, conn)
			return
		}
		_, _ = io.WriteString(conn, reply)
	}
}

// P10: Dial says which host is meant, what is wrong with it, and what to do.
func TestDialSaysWhatIsWrongWithAHost(t *testing.T) {
	t.Parallel()
	server, other := redistest.Start(t), redistest.Start(t)
	secure, mutual := redistest.Start(t, redistest.WithTLS()), redistest.Start(t, redistest.WithClientCertificates())
	authority := func(s *redistest.Server) string {
		folder, _ := s.MustDo(t, "CONFIG", "GET", "dir").([]any)
		return "?ca=" + url.QueryEscape(filepath.Join(fmt.Sprint(folder[1]), "certificate.pem"))
	}
	web, shell := listen(t, otherProgram("", "HTTP/1.1 400 Bad Request\r\n\r\n")), listen(t, otherProgram("SSH-2.0-OpenSSH_9.2\r\n", ""))
	echo := listen(t, otherProgram("", "500 zecret-password\r\n"))
	unknown := listen(t, otherProgram("", "E\x00\x00SFATAL"))
	closes := listen(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) })
	noSlots := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	for name, c := range map[string]struct {
		url, host string
		kind      error
		text      string
	}{
		"Empty":             {"", "", signalbox.ErrBadOption, "the URL is empty: if it comes from an environment variable"},
		"Web":               {"redis://" + web, web, signalbox.ErrBadOption, `a web server, and not a Redis or Valkey server: its first words are "HTTP/1.1 400`},
		"Echo":              {"redis://:zecret-password@" + echo, echo, signalbox.ErrBadOption, `another program, and not a Redis or Valkey server: its first words are "500 ***`},
		"SSH":               {"redis://" + shell, shell, signalbox.ErrBadOption, "an SSH server"},
		"Unknown":           {"redis://" + unknown, unknown, signalbox.ErrBadOption, "another program"},
		"Closes":            {"redis://" + closes, closes, nil, "closed before a reply"},
		"TLSToWeb":          {"rediss://" + web, web, signalbox.ErrBadOption, "the port does not speak TLS: name the server's TLS port"},
		"PlainToTLS":        {"redis://" + secure.Addr() + "?dial_timeout=1m", secure.Addr(), signalbox.ErrBadOption, "write rediss:// instead of redis://"},
		"PlainToMutualTLS":  {"redis://" + mutual.Addr() + "?dial_timeout=1m", mutual.Addr(), signalbox.ErrBadOption, "write rediss:// instead of redis://"},
		"UnknownAuthority":  {"rediss://" + secure.Addr(), secure.Addr(), nil, "by the parameter ca"},
		"OtherName":         {"rediss://" + secure.Addr() + authority(secure) + "&server_name=elsewhere.example", secure.Addr(), nil, "by the parameter server_name"},
		"NoCertificate":     {"rediss://" + mutual.Addr() + authority(mutual), mutual.Addr(), nil, "cert and key"},
		"SeveralOfNone":     {server.URL() + "?addr=" + other.Addr(), "the server 127.0.0.1:", signalbox.ErrBadOption, "name one address, or add master_set"},
		"NoSuchDatabase":    {server.URL() + "/99", server.Addr(), signalbox.ErrBadOption, "no database 99"},
		"NoSlots":           {noSlots.URL(), "", signalbox.ErrRefused, "redis-cli --cluster check"},
		"WrongPassword":     {strings.Replace(server.URL(), "redis://", "redis://teller:secret@", 1), server.Addr(), signalbox.ErrDenied, "the client's user or password is not valid"},
		"NoServer":          {"redis://127.0.0.1:1", "127.0.0.1:1", nil, "connection refused"},
		"NoSocket":          {"unix:///no/such.sock", "/no/such.sock", nil, "no such file"},
		"SentinelsPassword": {server.URL() + "?master_set=main", "the sentinel " + server.Addr(), signalbox.ErrBadOption, "not a sentinel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := signalbox.Dial(t.Context(), c.url)
			require.Nil(t, s)
			require.ErrorContains(t, err, "signalbox: dial: ")
			require.ErrorContains(t, err, c.host)
			require.ErrorContains(t, err, c.text)
			require.NotContains(t, err.Error(), "secret")
			require.NotContains(t, err.Error(), "\n")
			if c.kind != nil {
				require.ErrorIs(t, err, c.kind)
			}
		})
	}
}

// P10: a socket leads to one server, whatever addresses a cluster of that one node names.
func TestDialServesAClusterOfOneNodeByItsSocket(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a node serves two seconds after its start")
	socket := filepath.Join(t.TempDir(), "s")
	node := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes", "--unixsocket", socket))
	slots := make([]any, 0, redistest.Slots+2)
	slots = append(slots, "CLUSTER", "ADDSLOTS")
	for slot := range redistest.Slots {
		slots = append(slots, slot)
	}
	node.MustDo(t, slots...)
	redistest.Await(t, "a cluster that serves", func() bool {
		return strings.Contains(fmt.Sprint(node.MustDo(t, "CLUSTER", "INFO")), "cluster_state:ok")
	})
	s, err := signalbox.Dial(t.Context(), "unix://"+socket)
	require.NoError(t, err)
	for _, name := range []string{"a", "b", "c", "d"} {
		require.NoError(t, locktest.Must(t, reentrant.New(s, name).Lock).Unlock())
	}
	require.NoError(t, s.Close(t.Context()))
}

// P10: a host that says nothing is named as well, and so is TLS at a port without it.
func TestDialSaysWhichHostIsSilent(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "two seconds of silence end an attempt to connect")
	server, silent := redistest.Start(t), listen(t, otherProgram("", ""))
	_, err := signalbox.Dial(t.Context(), "redis://"+silent)
	require.ErrorIs(t, err, signalbox.ErrNoReply)
	require.ErrorContains(t, err, silent+": it accepts connections and says nothing")
	_, err = signalbox.Dial(t.Context(), "rediss://"+server.Addr())
	require.ErrorIs(t, err, signalbox.ErrNoReply)
	require.ErrorContains(t, err, server.Addr())
	require.ErrorContains(t, err, "name the server's TLS port")
}

// P10: a replica grants no lock, so Dial refuses it, and names the primary.
func TestDialRefusesAReplica(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica.MustDo(t, "REPLICAOF", host, port)
	s, err := signalbox.Dial(t.Context(), replica.URL())
	require.Nil(t, s)
	require.ErrorIs(t, err, signalbox.ErrRefused)
	require.ErrorContains(t, err, replica.Addr()+": the server refuses for now: it is a replica of "+primary.Addr())
}

// A credentials function is for the servers: sentinels have a user of their own, and a session works.
func TestACredentialsFunctionIsNotForSentinels(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartSentinel(t)
	for _, watcher := range nodes.Sentinels() {
		watcher.MustDo(t, "ACL", "SETUSER", "watch", "on", ">wright", "allchannels", "+@all")
	}
	for _, server := range []*redistest.Server{nodes.Primary(t), nodes.Replica(t)} {
		server.MustDo(t, "ACL", "SETUSER", "teller", "on", ">right", "~*", "&*", "+@all")
	}
	client := nodes.Client(t, func(o *rueidis.ClientOption) {
		o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "teller", Password: "right"}, nil
		}
		o.Sentinel.Username, o.Sentinel.Password = "watch", "wright"
		signalbox.Tune(o)
	})
	s := signalbox.NewSession(client)
	require.NoError(t, locktest.Must(t, reentrant.New(s, "a").Lock).Unlock())
	require.NoError(t, s.Close(t.Context()))
	users := fmt.Sprint(nodes.Primary(t).MustDo(t, "CLIENT", "LIST"))
	require.Contains(t, users, "user=teller")
	for _, watcher := range nodes.Sentinels() {
		require.NotContains(t, fmt.Sprint(watcher.MustDo(t, "ACL", "LOG")), "teller")
	}
}
