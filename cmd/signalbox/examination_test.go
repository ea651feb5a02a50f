// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
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
	lines := regexp.MustCompile(`(?m)^    ACL SETUSER locks on .* -@all ~sb:\* &sb:\* (.*\+spublish.*)$`).FindAllStringSubmatch(string(page), -1)
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

// refusingServer replies to probes as a server does that grants all, except those that refuse returns words for.
type refusingServer struct {
	refuse func(command string) (words string)
}

// client returns a client of the server.
func (s refusingServer) client(t *testing.T) rueidis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() { // ends with the listener
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go s.serve(conn) // ends with the client
		}
	}()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{listener.Addr().String()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true, ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func (s refusingServer) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	line := func() string {
		text, _ := in.ReadString('\n') // the next write fails
		return strings.TrimSpace(text)
	}
	for {
		n, err := strconv.Atoi(strings.TrimPrefix(line(), "*"))
		if err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			size, _ := strconv.Atoi(strings.TrimPrefix(line(), "$"))
			text := make([]byte, size+2)
			for at := range text {
				text[at], _ = in.ReadByte()
			}
			words[i] = string(text[:size])
		}
		if _, err := conn.Write([]byte(s.reply(words))); err != nil {
			return
		}
	}
}

// bulk returns a text as servers send it.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func (s refusingServer) reply(words []string) string {
	command := words[0]
	isProbe := command == "EVAL" && words[1] == probeScript
	switch {
	case isProbe:
		command = "script"
	case command == "EVAL" && strings.Contains(words[1], "PUBLISH"):
		command = "publish"
	case command == "EVAL" && words[2] == "32":
		command = "slots"
	}
	if words := s.refuse(command); words != "" {
		return "-" + words + "\r\n"
	}
	switch command {
	case "HELLO":
		return "%2\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n"
	case "INFO":
		return bulk("redis_version:7.0.15\r\nmaxmemory_policy:noeviction")
	case "TIME":
		return "*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
	case "slots":
		if s.refuse("SET") != "" {
			return "*1\r\n:0\r\n"
		}
		return "*1\r\n:32\r\n"
	case "script":
		reply := fmt.Sprintf("*%d\r\n", len(scriptRights))
		for _, r := range scriptRights {
			inside := s.refuse("in script " + r.command())
			reply += bulk(inside)
		}
		return reply
	case "SUBSCRIBE":
		return ">3\r\n" + bulk("subscribe") + bulk(words[1]) + ":1\r\n"
	}
	return "+OK\r\n"
}

// A probe that is refused for another reason than the one it was made for says that reason, and what to do about it: it speaks of no
// right. The exit code is that of what the reason costs: with writes refused, or nothing known, there is no lock.
func TestProbesOfDoctorSayWhyTheyWereRefused(t *testing.T) {
	t.Parallel()
	reasons := []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "NOREPLICAS Not enough good replicas to write.", "MISCONF Redis is configured to save",
		"READONLY You can't write against a read only replica.", "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"CLUSTERDOWN Hash slot not served", "MASTERDOWN Link with MASTER is down", "MOVED 7 10.0.0.1:6379", "TRYAGAIN Multiple keys request during rehashing of slot",
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair",
	}
	for probe, c := range map[string]struct {
		check, status string
		usual         string // the advice for a right that is missing
	}{
		"SET":            {"topology", statusWarning, "grant what is missing, and run this again"},
		"slots":          {"topology", statusWarning, "grant what is missing, and run this again"},
		"EVALSHA":        {"rights", statusProblem, "ACL SETUSER default +evalsha (docs/security.md lists all rights)"},
		"in script hset": {"writes", statusProblem, ""},
		"SUBSCRIBE":      {"messages", statusWarning, "ACL SETUSER default +subscribe"},
		"publish":        {"messages", statusWarning, "grant the rights that are missing"},
		"INFO":           {"server", statusWarning, "grant +info"},
		"TIME":           {"clock", statusWarning, "grant +time"},
	} {
		t.Run(probe, func(t *testing.T) {
			t.Parallel()
			for _, words := range append(reasons, "NOPERM this user has no permissions to run the '"+strings.ToLower(probe)+"' command", "XYZ a proxy's own words") {
				refused := refusingServer{func(command string) string {
					if command == probe {
						return words
					}
					return ""
				}}
				client := refused.client(t)
				e := newExamination(client, rueidis.ClientOption{}, defaultPrefix)
				e.findNodes(t.Context())
				n := e.nodes[0]
				n.info, n.infoErr = readInfo(t.Context(), client)
				switch c.check {
				case "topology":
					e.checkTopology(t.Context())
				case "messages":
					e.add(n, e.checkMessages(t.Context(), n))
				case "server":
					e.add(n, n.checkMemory()) // the version comes from HELLO
					e.findings[0].Check = c.check
				case "clock":
					e.add(n, n.checkTimes(t.Context())...)
				default:
					e.add(n, e.checkRights(t.Context(), n)...)
				}
				trouble := troubleOf(words)
				advice := c.usual
				if trouble != nil {
					advice = trouble.advice
				}
				var met []finding
				for _, f := range e.findings {
					if f.Check == c.check || trouble == nil && f.Check == "rights" {
						met = append(met, f)
					}
				}
				text := fmt.Sprint(probe, ": ", words, ": ", met)
				switch {
				case c.check == "rights" && trouble != nil && trouble.ofWrites: // of a call that does not write: no server says it
				case trouble != nil:
					require.Len(t, met, 1, text)
					require.Equal(t, c.status, met[0].Status, text)
					require.Contains(t, met[0].Found, words, text)
					require.Equal(t, advice, met[0].Advice, text)
				case strings.HasPrefix(words, "NOPERM") && c.usual != "" && c.check != "server":
					require.Contains(t, fmt.Sprint(met), advice, text)
				}
			}
		})
	}
}

// The client of doctor takes no context: the command ends with its own all the same.
func TestDoctorDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // no connection is accepted
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = connect(ctx, rueidis.ClientOption{InitAddress: []string{listener.Addr().String()}})
	require.ErrorIs(t, err, context.Canceled)
}
