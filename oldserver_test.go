// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// oldServer returns what a server older than Redis 6.2 would: HELLO and CLIENT as any, and the
// session's hello with 0.
type oldServer struct {
	address string
	conns   sync.WaitGroup
}

func listenAsAnOldServer(t *testing.T) *oldServer {
	t.Helper()
	return listenAsAnOldServerThat(t, func() (replies bool) { return true })
}

// listenAsAnOldServerThat is listenAsAnOldServer, and says what happens when a script arrives.
func listenAsAnOldServerThat(t *testing.T, requested func() (replies bool)) *oldServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &oldServer{address: listener.Addr().String()}
	s.conns.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			s.conns.Go(func() { _ = serveAll(conn, requested) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.conns.Wait()
	})
	return s
}

// serveAll replies to the requests of one connection until it ends.
func serveAll(conn net.Conn, requested func() (replies bool)) error {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readRequest(in)
		if err != nil {
			return err
		}
		reply := "+OK\r\n"
		switch strings.ToUpper(words[0]) {
		case "HELLO":
			reply = "%2\r\n+version\r\n+6.0.16\r\n+proto\r\n:3\r\n"
		case "EVALSHA", "EVAL":
			if !requested() {
				return nil // the connection ends
			}
			reply = fmt.Sprintf("*2\r\n:0\r\n$16\r\n%016d\r\n", time.Now().UnixMicro())
		case "CLUSTER":
			reply = "-ERR This instance has cluster support disabled\r\n"
		case "PING":
			reply = "+PONG\r\n"
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return err
		}
	}
}

// readRequest reads an array of texts.
func readRequest(in *bufio.Reader) ([]string, error) {
	words := make([]string, max(1, readLength(in)))
	for i := range words {
		word := make([]byte, readLength(in)+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:len(word)-2])
	}
	return words, nil
}

// readLength reads a line such as "*3" or "$5"; what fails is seen by the next read.
func readLength(in *bufio.Reader) int {
	line, err := in.ReadString('\n')
	if err != nil || len(line) < 3 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err != nil {
		return 0
	}
	return n
}

// pendingConnections returns how many connections the kernel has for a frozen server, by
// its own account of sockets.
func pendingConnections(t *testing.T, server *redistest.Server) int {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	const established = " 01 "
	count := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[2] == fmt.Sprintf("0100007F:%04X", n) && " "+fields[3]+" " == established {
			count++
		}
	}
	return count
}
