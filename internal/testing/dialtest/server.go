// SPDX-License-Identifier: Apache-2.0

package dialtest

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
)

// Greeting is what a client wrote on a connection before its first request. Words that say nothing of the client's rights or of the
// place of its keys are left out.
type Greeting struct {
	To             string // the listener: "server" or "sentinel"
	Network        string // tcp4, tcp6 or unix
	TLS            bool
	Protocol       int
	User, Password string
	DB             int
	Name           string
}

// Server replies to what clients write when they connect: as one server, as a cluster of one node, and as a sentinel that names the
// server. It accepts every password, and speaks TLS with those that begin so.
type Server struct {
	Cluster bool // whether it is one; set it before clients connect
	// Restless lets it end connections at scripts, and lead clients to another listener: by redirections, as a node of the cluster, and
	// as the primary that the sentinel names. Set it before clients connect.
	Restless bool

	certificate tls.Certificate
	roots       *x509.CertPool
	addrs       map[string]string // by listener
	ended       *sync.Cond        // uses the lock; signals that a connection has ended

	mu struct {
		sync.Mutex
		open      int // the number of connections
		greetings map[Greeting]bool
		replies   int      // how many of a restless server may lead elsewhere
		moved     int      // the connections to the other listener
		clear     []string // the words that were written without TLS
	}
}

// The listeners of a Server.
const (
	ToServer   = "server"
	ToSentinel = "sentinel"
	toSocket   = "socket"
	toMoved    = "moved"
)

// StartServer runs a Server until the test ends.
func StartServer(tb testing.TB) *Server {
	tb.Helper()
	signed := httptest.NewTLSServer(nil) // only for its certificate
	signed.Close()
	s := &Server{certificate: signed.TLS.Certificates[0], roots: x509.NewCertPool(), addrs: make(map[string]string)}
	s.roots.AddCert(signed.Certificate())
	s.ended, s.mu.greetings = sync.NewCond(&s.mu), make(map[Greeting]bool)
	for to, at := range map[string][2]string{
		ToServer: {"tcp", ":0"}, ToSentinel: {"tcp", "127.0.0.1:0"}, toMoved: {"tcp", "127.0.0.1:0"}, toSocket: {"unix", filepath.Join(tb.TempDir(), "s")},
	} {
		listener, err := net.Listen(at[0], at[1])
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = listener.Close() })
		s.addrs[to] = listener.Addr().String()
		go s.accept(listener, to)
	}
	return s
}

// Socket returns the path of the server in the file system.
func (s *Server) Socket() string { return s.addrs[toSocket] }

// Addr returns the address of a listener, by a number of IPv4.
func (s *Server) Addr(to string) string { return "127.0.0.1" + s.Local(to) }

// Local returns the address of the server without a host: this host, by a number of the family that the network names.
func (s *Server) Local(to string) string {
	_, port, _ := net.SplitHostPort(s.addrs[to])
	return ":" + port
}

// nameOf returns the listener that an address leads to, "local" for what Local returns.
func (s *Server) nameOf(addr string) string {
	return map[string]string{
		s.Socket(): toSocket, s.Local(ToServer): "local", s.Addr(ToServer): ToServer, s.Addr(ToSentinel): ToSentinel,
	}[addr]
}

// Dials records what a dialer of the service is asked for.
type Dials struct {
	server *Server

	mu struct {
		sync.Mutex
		found []string
	}
}

// Dials returns an empty record.
func (s *Server) Dials() *Dials { return &Dials{server: s} }

// Note records a network and an address.
func (d *Dials) Note(network, addr string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dial := network + " " + d.server.nameOf(addr); !slices.Contains(d.mu.found, dial) {
		d.mu.found = append(d.mu.found, dial)
	}
}

// Found returns the different networks with the names of listeners, in order.
func (d *Dials) Found() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.mu.found))
}

// TLSConfig returns a new configuration that trusts the server.
func (s *Server) TLSConfig() *tls.Config {
	return &tls.Config{RootCAs: s.roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
}

// Written returns the different greetings since the last call, in order. It waits until all connections have ended: close their
// clients first.
func (s *Server) Written() []Greeting {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.mu.open > 0 {
		s.ended.Wait()
	}
	var found []Greeting
	for g := range s.mu.greetings {
		found = append(found, g)
	}
	clear(s.mu.greetings)
	slices.SortFunc(found, func(a, b Greeting) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return found
}

// Clear returns the words that were written without TLS, and how many connections a restless server has led to its other listener. It
// waits until all connections have ended.
func (s *Server) Clear() (words []string, moved int) {
	s.Written()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.clear), s.mu.moved
}

// accept ends with the listener.
func (s *Server) accept(listener net.Listener, to string) {
	for {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.mu.open++
		s.mu.Unlock()
		go func() { // ends with the connection
			s.serve(c, to)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.open--
			s.ended.Broadcast()
		}()
	}
}

// firstByte is a connection whose first byte was read.
type firstByte struct {
	net.Conn

	reader *bufio.Reader
}

// Read implements net.Conn.
func (f firstByte) Read(b []byte) (int, error) { return f.reader.Read(b) }

func (s *Server) serve(c net.Conn, to string) {
	defer func() { _ = c.Close() }()
	g := Greeting{To: to, Network: "tcp6", Protocol: 2}
	if to == toMoved {
		g.To = ToServer
		s.mu.Lock()
		s.mu.moved++
		s.mu.Unlock()
	}
	if to == toSocket {
		g.To, g.Network = ToServer, "unix"
	} else if at, ok := c.LocalAddr().(*net.TCPAddr); ok && at.IP.To4() != nil {
		g.Network = "tcp4"
	}
	reader := bufio.NewReader(c)
	first, err := reader.Peek(1)
	if err != nil {
		return // nothing was written
	}
	const handshake = 0x16 // how TLS begins
	if g.TLS = first[0] == handshake; g.TLS {
		secure := tls.Server(firstByte{c, reader}, &tls.Config{Certificates: []tls.Certificate{s.certificate}, MinVersion: tls.VersionTLS12})
		c, reader = secure, bufio.NewReader(secure)
	}
	record := sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.greetings[g] = true
	})
	for n := 0; ; n++ {
		words, err := readRequest(reader)
		isGreeting := err == nil && g.note(words)
		if n > 0 && !isGreeting {
			record()
		}
		if err != nil {
			return
		}
		if !g.TLS {
			s.mu.Lock()
			s.mu.clear = append(s.mu.clear, words...)
			s.mu.Unlock()
		}
		reply := s.reply(words, &g)
		if _, err = io.WriteString(c, reply); err != nil || reply == "" {
			return
		}
	}
}

// note records a request. It reports whether the request is part of a greeting.
func (g *Greeting) note(words []string) bool {
	switch strings.ToUpper(words[0]) {
	case "HELLO":
		for i := 1; i < len(words); i++ {
			switch word := strings.ToUpper(words[i]); word {
			case "AUTH":
				g.User, g.Password = words[i+1], words[i+2]
				i += 2
			case "SETNAME":
				g.Name = words[i+1]
				i++
			default:
				g.Protocol, _ = strconv.Atoi(word)
			}
		}
	case "AUTH":
		g.User, g.Password = "default", words[len(words)-1]
		if len(words) > 2 {
			g.User = words[1]
		}
	case "SELECT":
		g.DB, _ = strconv.Atoi(words[1])
	case "CLIENT":
		if strings.EqualFold(words[1], "SETNAME") {
			g.Name = words[2]
		}
	case "READONLY":
	default:
		return false
	}
	return true
}

// reply returns the reply to a request.
func (s *Server) reply(words []string, g *Greeting) string {
	_, port, _ := net.SplitHostPort(s.addrs[ToServer])
	if s.Restless && slices.Contains([]string{"EVAL", "EVALSHA", "CLUSTER", "SENTINEL"}, words[0]) {
		s.mu.Lock()
		s.mu.replies++
		turn := s.mu.replies
		s.mu.Unlock()
		if turn > 4 && turn%2 == 0 { // the first calls are those of the dial
			_, port, _ = net.SplitHostPort(s.addrs[toMoved])
		}
		switch {
		case turn <= 4 || words[0][0] != 'E':
		case turn%3 == 0:
			return ""
		case turn%3 == 1 && s.Cluster:
			return "-MOVED 0 127.0.0.1:" + port + "\r\n"
		}
	}
	switch command := strings.ToUpper(words[0]); command {
	case "HELLO":
		begin := "*10\r\n"
		if g.Protocol == 3 {
			begin = "%5\r\n"
		}
		mode := "standalone"
		if g.To == ToSentinel {
			mode = "sentinel"
		} else if s.Cluster {
			mode = "cluster"
		}
		return begin + bulks("server", "redis", "version", "7.4.0", "role", "master", "mode", mode) + bulks("proto") + fmt.Sprintf(":%d\r\n", g.Protocol)
	case "PING":
		return "+PONG\r\n"
	case "ROLE":
		return "*3\r\n" + bulks("master") + ":0\r\n*0\r\n"
	case "EVAL", "EVALSHA": // the script of the handshake
		return "*5\r\n:1\r\n" + bulks("1700000000000000", "", "") + ":1\r\n"
	case "INFO":
		return bulks("role:master\r\n")
	case "COMMAND", "EXISTS":
		return "*0\r\n"
	case "CLUSTER":
		if !s.Cluster {
			return "-ERR This instance has cluster support disabled\r\n"
		}
		return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n" + bulks("127.0.0.1") + ":" + port + "\r\n" + bulks("node")
	case "SENTINEL":
		if strings.EqualFold(words[1], "GET-MASTER-ADDR-BY-NAME") {
			return "*2\r\n" + bulks("127.0.0.1", port)
		}
		return "*0\r\n"
	case "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE":
		var all strings.Builder
		for _, channel := range append(words[1:], "")[:max(1, len(words)-1)] {
			all.WriteString(map[bool]string{true: ">3\r\n", false: "*3\r\n"}[g.Protocol == 3] + bulks(strings.ToLower(command), channel) + ":1\r\n")
		}
		return all.String()
	}
	return "+OK\r\n"
}

// bulks returns strings as they are in a reply.
func bulks(texts ...string) string {
	var all strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&all, "$%d\r\n%s\r\n", len(text), text)
	}
	return all.String()
}

// readRequest returns the words of the next request.
func readRequest(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r)
	words := make([]string, n)
	for i := range words {
		if n, err = readLength(r); err != nil {
			return nil, err
		}
		word := make([]byte, n+2)
		if _, err = io.ReadFull(r, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:n])
	}
	return words, err
}

// readLength returns the number in the next line.
func readLength(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 4 {
		return 0, fmt.Errorf("no length: %w", err)
	}
	return strconv.Atoi(line[1 : len(line)-2])
}

// Name is the name of the lock that Use acquires.
const Name = "vault"

// Use makes calls of a session for a while, and closes it: goroutines acquire a lock and wait for it. What becomes of the calls does not
// matter.
func Use(s *signalbox.Session) {
	ctx, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for ctx.Err() == nil {
				if lease, err := fair.New(s, Name).Lock(ctx); err == nil {
					_ = lease.Unlock()
				}
			}
		})
	}
	callers.Wait()
	_ = s.Close(ctx)
}

// SetUnusual sets a value, and all that is in it, to what no program has by accident. Interfaces stay nil.
func SetUnusual(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("unusual")
	case reflect.Int, reflect.Int64:
		v.SetInt(2)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		SetUnusual(v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if config, isTLS := reflect.TypeAssert[*tls.Config](v); isTLS {
			config.ServerName = "unusual"
		}
	case reflect.Func: // it returns zero values
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) (results []reflect.Value) {
			for i := range v.Type().NumOut() {
				results = append(results, reflect.Zero(v.Type().Out(i)))
			}
			return results
		}))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				SetUnusual(v.Field(i))
			}
		}
	default:
	}
}
