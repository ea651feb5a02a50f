// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// P10: a refusal is recognised as a server, a script or a proxy writes it.
func TestRefusalsThatDoubtTheirServer(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]suspicion{
		"READONLY You can't write against a read only replica.":                                           wrongServer,
		"ERR READONLY You can't write against a read only replica.":                                       wrongServer,
		"ERR Error running script (call to f_1): @user_script:4: -READONLY You can't write":               wrongServer,
		"readonly you can't write against a read only replica":                                            wrongServer,
		"ERR You can't write against a read-only replica.":                                                wrongServer,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                wrongServer,
		"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)":    wrongServer,
		"NOREPLICAS Not enough good replicas to write.":                                                   suspectServer,
		"ERR proxy: -LOADING Redis is loading the dataset in memory":                                      suspectServer,
		"MISCONF Redis is configured to save RDB snapshots":                                               unsuspicious,
		"BUSY Redis is busy running a script.":                                                            unsuspicious,
		"OOM command not allowed when used memory > 'maxmemory'.":                                         unsuspicious,
		"NOPERM this user has no permissions to access one of the keys used as arguments 'sb:{READONLY}'": unsuspicious,
		"ERR unknown command 'FOO', with args beginning with: 'READONLY'":                                 unsuspicious,
		"ERR the lock READONLYISH is none":                                                                unsuspicious,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                               unsuspicious,
		"": unsuspicious,
	} {
		require.Equal(t, want, suspicionOf(words), words)
	}
	require.Equal(t, "127.0.0.1:6381", movedTo("MOVED 3999 127.0.0.1:6381"))
	require.Equal(t, "[::1]:6381", movedTo("ERR -moved 3999 [::1]:6381"))
	require.Empty(t, movedTo("ERR this was MOVED"))
}

// An address is what it means, however it is written.
func TestAddressesAreComparedByWhatTheyMean(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		named, want string
		known       []string
	}{
		{"10.0.0.1:6379", "10.0.0.1:6379", []string{"10.0.0.2:6379", "10.0.0.1:6379"}},
		{"10.0.0.3:6379", "", []string{"10.0.0.2:6379", "10.0.0.1:6379"}},
		{"0:0:0:0:0:0:0:1:7000", "[::1]:7000", []string{"[::1]:7000", "[::1]:7001"}},
		{"[fe80::1%eth0]:7000", "[fe80::1]:7000", []string{"[fe80::1]:7000"}},
		{"[::ffff:10.0.0.1]:7000", "10.0.0.1:7000", []string{"10.0.0.1:7000"}},
		{"Node1.Example.:7000", "node1.example:7000", []string{"node1.example:7000", "node2.example:7000"}},
		{":7001", "10.0.0.1:7001", []string{"10.0.0.1:7000", "10.0.0.1:7001"}},
		{"?:7001", "10.0.0.1:7001", []string{"10.0.0.1:7000", "10.0.0.1:7001"}},
		{"node1:7001", "10.0.0.1:7001", []string{"10.0.0.1:7000", "10.0.0.1:7001"}},
		{"10.0.0.1:7001", "node1:7001", []string{"node1:7000", "node1:7001"}},
		{"node1:7000", "", []string{"10.0.0.1:7000", "10.0.0.2:7000"}},
		{"node1:7000", "", []string{"node2:7000"}},
	} {
		require.Equal(t, c.want, MatchAddress(c.named, c.known), c.named)
	}
}

// A stream is read alike however it comes in pieces.
func TestFramesEndWhereTheyEnd(t *testing.T) {
	t.Parallel()
	values := []string{
		"+OK\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$7\r\na\r\n-b\r\n\r\n", "*0\r\n", "*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
		"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n,1.5\r\n#t\r\n", ">3\r\n+message\r\n$1\r\na\r\n$9\r\n-READONLY\r\n", "_\r\n", "~1\r\n(12\r\n",
		"*6\r\n$7\r\nEVALSHA\r\n$2\r\n$3\r\n$-1\r\n$0\r\n\r\n$4\r\n\r\n$1\r\n$11\r\n-READONLY a\r\n", "-READONLY no\r\n", "!8\r\nREADONLY\r\n", "=6\r\ntxt:ab\r\n",
		strings.Repeat("*1\r\n", maxDepth) + ":1\r\n", "*200\r\n" + strings.Repeat("*1\r\n%1\r\n+a\r\n:1\r\n", 200), "*2\r\n*-1\r\n*0\r\n",
	}
	stream := strings.Join(values, "")
	for size := range len(stream) {
		var f frameScanner
		var kinds, words []string
		for rest := []byte(stream); len(rest) > 0; {
			piece := rest[:min(size+1, len(rest))]
			rest = rest[len(piece):]
			for {
				var ended bool
				if piece, ended = f.next(piece); !ended {
					break
				}
				kinds = append(kinds, string(f.kind))
				if f.kind == '-' || f.kind == '!' {
					words = append(words, strings.TrimSpace(string(f.text)))
				}
			}
		}
		require.Len(t, kinds, len(values), "in pieces of %d", size+1)
		require.Equal(t, []string{"READONLY no", "READONLY"}, words)
		require.False(t, f.insideValue() || f.unreadable)
	}
	var f frameScanner
	_, ended := f.next([]byte("HTTP/1.1 400 Bad Request\r\n"))
	require.False(t, ended)
	require.True(t, f.unreadable)
}

// A redirection leads to a connection itself if it names its address, its host by number, or no host.
func TestRedirectionToItselfIsRecognised(t *testing.T) {
	t.Parallel()
	c := NewConnector(nil, ConnectorOptions{})
	p := c.endpoint("node1.example:7000")
	c.endpoint("alias:7000").remoteHost = "10.0.0.1"
	const remote = "10.0.0.1:7000"
	for to, here := range map[string]bool{
		"node1.example:7000": true, "NODE1.example.:7000": true, "10.0.0.1:7000": true, ":7000": true, "?:7000": true, "alias:7000": true,
		"node1.example:7001": false, "10.0.0.2:7000": false, "node2.example:7000": false, ":7001": false,
	} {
		require.Equal(t, here, p.isAt(to, remote), to)
	}
}

// Two connections with subscriptions to one sentinel, of which each ends the other, end once.
func TestSubscriptionsInRESP2EndTogether(t *testing.T) {
	t.Parallel()
	e := NewConnector(nil, ConnectorOptions{Sentinels: true}).endpoint("s0:1")
	conns := make([]*conn, 2)
	for i := range conns {
		near, far := net.Pipe()
		defer func() { _ = far.Close() }()
		conns[i] = newConn(near, e, dialSettings{sentinel: true}, nil)
		e.add(conns[i])
		conns[i].mu.Lock()
		conns[i].mu.subscribed = true
		conns[i].mu.greeting.noteWritten([]byte("*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n"))
		conns[i].mu.Unlock()
	}
	conns[0].end(errNoReply)
	for _, c := range conns {
		require.True(t, c.closed.Load())
	}
}

// A refusal of HELLO is translated however it is cut into reads, during the handshake alone, and nothing else is.
func TestARefusalOfHELLOIsTranslatedInTheHandshakeAlone(t *testing.T) {
	t.Parallel()
	const unknown, other = "-ERR unknown command 'HELLO'\r\n", "-ERR Unsupported: hello\r\n"
	hello := "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"
	helloWithAuth := "*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$4\r\nshop\r\n$6\r\nsecret\r\n"
	auth := "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
	for name, c := range map[string]struct{ request, reply, want string }{
		"Translated":   {hello, other + "+OK\r\n", unknown + "+OK\r\n"},
		"BehindAnAUTH": {auth + hello, "+OK\r\n" + other, "+OK\r\n" + unknown},
		"NoHELLO":      {"*1\r\n$4\r\nPING\r\n", other, other},
		"OtherError":   {hello, "-ERR out of memory\r\n", "-ERR out of memory\r\n"},
		"NOAUTH":       {hello, "-NOAUTH HELLO must be called with the client already authenticated\r\n", "-NOAUTH HELLO must be called with the client already authenticated\r\n"},
		"NOPERM":       {hello, "-NOPERM no permissions to run the 'hello' command\r\n", "-NOPERM no permissions to run the 'hello' command\r\n"},
		"NOPROTO":      {hello, "-NOPROTO sorry this protocol version is not supported\r\n", unknown},
		"WithoutCode":  {hello, "-unsupported command 'HELLO'\r\n", unknown},
		"NotNamed":     {hello, "-ERR command not found\r\n", unknown},
		"AsksForAUTH":  {helloWithAuth, "-NOAUTH Authentication required.\r\n", unknown},
		"WRONGPASS":    {helloWithAuth, "-WRONGPASS invalid username-password pair\r\n", "-WRONGPASS invalid username-password pair\r\n"},
		"Temporary":    {hello, "-ERR max number of clients reached\r\n", "-ERR max number of clients reached\r\n"},
		"OtherRequest": {hello + auth, "%1\r\n+proto\r\n:3\r\n-ERR unknown command\r\n", "%1\r\n+proto\r\n:3\r\n-ERR unknown command\r\n"},
		"NoError":      {hello, "%1\r\n+hello\r\n+-ERR hello\r\n", "%1\r\n+hello\r\n+-ERR hello\r\n"},
	} {
		for size := 1; size <= len(c.reply); size++ {
			client, server := net.Pipe()
			conn, err := TranslateHello(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return client, nil })(t.Context(), "", nil, nil)
			require.NoError(t, err)
			go func() {
				_, _ = io.ReadFull(server, make([]byte, len(c.request)))
				for rest := c.reply; rest != ""; {
					n, _ := io.WriteString(server, rest[:min(size, len(rest))])
					rest = rest[n:]
				}
				_ = server.Close()
			}()
			_, err = io.WriteString(conn, c.request)
			require.NoError(t, err)
			read, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, c.want, string(read), "%s by %d", name, size)
		}
	}
}

// Of several addresses the client tries all at once: the one that is away may be the last to fail, while another has replied.
func TestAnErrorNamesTheHostThatReplied(t *testing.T) {
	t.Parallel()
	away := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	refused := &credentialsError{errors.New("refused")}
	for _, order := range [][]*dialAttempt{
		{{address: "up:1"}, {address: "away:1", err: away}},
		{{address: "away:1", err: away}, {address: "up:1"}},
		{{address: "up:1", err: refused}, {address: "away:1", err: away}},
	} {
		r := NewDialRecorder(&rueidis.ClientOption{InitAddress: []string{"up:1", "away:1"}})
		for _, a := range order {
			r.add(a)
		}
		require.EqualError(t, r.Explain(t.Context(), refused), "the server up:1: refused")
	}
}

// The keys of a large batch do not replace those of calls for one lock.
func TestBatchesDoNotReplaceRememberedKeys(t *testing.T) {
	t.Parallel()
	r := new(rights)
	lock := []string{"sb:{a}:lock", "sb:{a}:queue"}
	r.remember(lock)
	batch := make([]string, 100*maxRememberedKeys)
	for i := range batch {
		batch[i] = strconv.Itoa(i)
	}
	r.remember(batch)
	require.True(t, r.hasAll(lock))
}

// A call waits for the text of another call no longer than its own context lasts, and was not
// executed then.
func TestCallThatWaitsForATextEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var r Runner
	own, _ := r.inFlight.next(HelloScript.SHA1, nil)
	require.NotNil(t, own, "the first sends its text")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result := r.sendText(ctx, Call{Script: HelloScript, Keys: []string{"key"}})
	require.ErrorIs(t, result.Error(), context.Canceled)
	require.Equal(t, Final, Judge(result.Error()))
}
