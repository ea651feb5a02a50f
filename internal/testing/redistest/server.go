// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a Redis or Valkey server on a loopback port, without persistence. All
// methods may be called from any goroutine.
type Server struct {
	report   reporter
	binary   string
	set      setup
	port     int
	bus      int            // the port for the other nodes of a cluster, else 0
	reserved []*reservation // the reservations of these ports

	mu struct {
		sync.Mutex
		proc *supervised // the running or last one
		log  *tail       // the output of proc
		kept string      // the content of the file that the server keeps, as its last process left it
	}
}

const (
	// startLimit bounds the start of a server, which takes 10 to 50 ms.
	startLimit = 20 * time.Second
	// startTries is how many free ports are tried. A second one is needed only if
	// another process takes the port between the check and the start.
	startTries = 5
)

// errNotStarted reports that a server ended before its first reply, for example because its port is in use.
var errNotStarted = errors.New("redistest: server ended at its start")

// Start runs a server until the test ends. It fails the test at once if there is no server to run or it
// sends no replies.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	NeedServer(tb)
	s, err := startSingle(reporter{tb}, newConfig(opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// StartServer is Start for programs that are no tests. The caller must Close the server;
// if the program ends without, the server ends with it.
func StartServer(opts ...Option) (*Server, error) {
	return startSingle(reporter{}, newConfig(opts))
}

func startSingle(r reporter, c config) (*Server, error) {
	set, err := c.setup()
	if err != nil {
		return nil, err
	}
	// A node without other nodes listens for them too, by default 10,000 ports higher, where a client may have its port.
	set.bus = slices.Contains(set.args, "--cluster-enabled")
	return start(r, set)
}

func start(r reporter, set setup) (*Server, error) {
	binary, err := serverBinary()
	if err != nil {
		return nil, err
	}
	s := &Server{report: r, binary: binary, set: set}
	for range startTries {
		if err = s.pickPorts(); err == nil {
			err = s.launch()
		}
		if err == nil {
			return s, nil
		}
		s.freePorts()
		if !errors.Is(err, errNotStarted) {
			break
		}
	}
	return nil, err
}

// Addr returns the server's address, "127.0.0.1:port". It never changes.
func (s *Server) Addr() string { return loopback(s.port) }

// URL returns the server's address as "redis://127.0.0.1:port", or as "rediss://..." if it speaks
// TLS.
func (s *Server) URL() string {
	if s.set.tls != nil {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// TLSConfig returns what a client of the server needs to connect, nil without TLS. It is the
// caller's to change.
func (s *Server) TLSConfig() *tls.Config {
	if s.set.tls == nil {
		return nil
	}
	return s.set.tls.client.Clone()
}

// PID returns the process id of the running server, or of the last one.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.proc.pid
}

// Log returns the end of what the running server, or the last one, has logged.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.log.String()
}

// Close ends the server as Kill does, and lets others have its port.
func (s *Server) Close() {
	s.kill()
	s.freePorts()
}

// pickPorts finds a port for each of the server's.
func (s *Server) pickPorts() error {
	if s.set.bus && isOld(s.binary) {
		return s.pickOldPorts()
	}
	ports := []*int{&s.port}
	if s.set.bus {
		ports = append(ports, &s.bus)
	}
	for _, port := range ports {
		r, err := reserve()
		if err != nil {
			return err
		}
		s.reserved = append(s.reserved, r)
		*port = r.port
	}
	return nil
}

// pickOldPorts is pickPorts for a node that has no say in its second port.
func (s *Server) pickOldPorts() error {
	first, second, err := reservePair(busDistance)
	if err != nil {
		return err
	}
	s.reserved = append(s.reserved, first, second)
	s.port, s.bus = first.port, second.port
	return nil
}

func (s *Server) freePorts() {
	for _, r := range s.reserved {
		r.free()
	}
}

// at is the address of the server.
func (s *Server) at() target { return target{s.Addr(), s.TLSConfig()} }

// launch starts a process on the server's port and waits for its first reply.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := new(tail)
	run, err := clocked(program{
		path: s.binary, args: s.set.line(s.binary, s.port, s.bus), files: s.set.contents(s.mu.kept), log: log,
	}, s.set.steps)
	if err != nil {
		return err
	}
	proc, err := supervise(run)
	if err != nil {
		return err
	}
	if s.set.steps != nil {
		defer forgetClock(proc.pid)
	}
	if err := s.await(proc); err != nil {
		proc.end()
		return fmt.Errorf("%w%s; %s on port %d logged:\n%s", err, s.hint(log), s.binary, s.port, log)
	}
	s.mu.proc, s.mu.log = proc, log
	return nil
}

// await returns when proc replies, and has loaded its data. It asks for the process id: if another server has got the port
// meanwhile, that one replies.
func (s *Server) await(proc *supervised) error {
	var last error
	replies := func() bool {
		var info infoSections
		if info, last = s.at().info(time.Second, "server"); last != nil {
			return false
		}
		if pid := info["process_id"]; pid != strconv.Itoa(proc.pid) {
			last = fmt.Errorf("redistest: process %s has the port", pid)
			return false
		}
		if info, last = s.at().info(time.Second, "persistence"); last == nil && info["loading"] == "1" {
			last = errLoads
		}
		return last == nil
	}
	if PollUntil(startLimit, func() bool { return !proc.running() || replies() }) && proc.running() {
		return nil
	}
	if !proc.running() {
		return errNotStarted
	}
	return fmt.Errorf("redistest: server did not reply within %v: %w", startLimit, last)
}

// errLoads says that a server that replies has not loaded its data yet: it refuses commands until then.
var errLoads = errors.New("redistest: the server loads its data")

// Ports are picked from [firstPort, endPort), below the range from which Linux takes the local ports of outgoing connections: a
// client that redials a server that is down must not be given its port.
const (
	firstPort = 20000
	endPort   = 32000
	portTries = 100
)

// reservation keeps a loopback port from every other server and proxy of this package, in any process, even
// while nothing listens on it: sentinels and nodes of a cluster keep calling one of them that is down. It is a UDP socket of the
// same number, which the kernel closes however the process ends.
type reservation struct {
	port   int
	socket net.PacketConn
}

// reserve finds a port that is not reserved and on which nothing listens. Another program may bind it
// before it is used; then the caller tries again with another port.
func reserve() (*reservation, error) {
	for range portTries {
		if r, err := reservePort(firstPort + rand.N(endPort-firstPort)); r != nil || err != nil {
			return r, err
		}
	}
	return nil, errNoPort
}

// errNoPort says that the tries were used up.
var errNoPort = errors.New("redistest: no free port")

// reservePort is reserve for a given port. It returns nil if that is in use.
func reservePort(port int) (*reservation, error) {
	socket, err := net.ListenPacket("udp", loopback(port))
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // the port is in use: the caller tries another
	}
	r := &reservation{port, socket}
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		r.free()
		return nil, nil //nolint:nilerr,nilnil // see above
	}
	if err := l.Close(); err != nil {
		r.free()
		return nil, fmt.Errorf("redistest: free port: %w", err)
	}
	return r, nil
}

// busDistance is by how much the port for the other nodes of a cluster is higher than that for clients, if the server
// has no option for it.
const busDistance = 10_000

// reservePair is reserve for two ports of which the second is higher by distance. Both are below the local ports of
// outgoing connections.
func reservePair(distance int) (first, second *reservation, err error) {
	for range portTries {
		port := firstPort - distance + rand.N(endPort-firstPort)
		if first, err = reservePort(port); err != nil {
			return nil, nil, err
		} else if first == nil {
			continue
		}
		if second, err = reservePort(port + distance); second != nil {
			return first, second, nil
		}
		first.free()
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, errNoPort
}

// free gives the port to others. It may be called twice, and on nil.
func (r *reservation) free() {
	if r != nil {
		_ = r.socket.Close() // nothing was sent; the second time it is closed already
	}
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// ServerEnv names the environment variable that holds the server binary to run, a path or a name on PATH.
// Without it redis-server is run. It may be a script that execs the server at its end, because signals are
// sent to the process that was started. The same binary runs as a node of a cluster and as a sentinel. If it is
// "none", the tests that need a server are skipped.
const ServerEnv = "SIGNALBOX_TEST_SERVER"

// mayLack reports whether tests may be left out because err says that there is no server: if ServerEnv says so, and on systems
// that have no package of a server, unless ServerEnv names one.
func mayLack(err error) bool {
	name := os.Getenv(ServerEnv)
	return errors.Is(err, exec.ErrNotFound) && (name == "none" || name == "" && runtime.GOOS != "linux")
}

// serverBinary finds the server to run.
func serverBinary() (string, error) {
	name := os.Getenv(ServerEnv)
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("no Redis server to test with: install redis-server (Debian: apt-get install redis-server), "+
			"run `make redis`, or set %s to the binary of a Redis or Valkey server: %w", ServerEnv, err)
	}
	return path, nil
}

// missingServer reports to the tests of a process that there is no server to run.
type missingServer struct{ reported atomic.Bool }

//nolint:gochecknoglobals // a process reports it once
var noServer missingServer

// NeedServer ends a test if there is no server to run. Only the first such test of the process fails, and says what to
// install; the others are skipped. On systems other than Linux the first is skipped too, unless [ServerEnv] names a server. [Start], [StartSentinel] and [StartCluster] call it. A test that uses
// [StartServer] or [Topologies] calls it first.
func NeedServer(tb testing.TB) {
	tb.Helper()
	noServer.end(tb)
}

func (m *missingServer) end(tb testing.TB) {
	tb.Helper()
	_, err := serverBinary()
	switch {
	case err == nil:
		return
	case mayLack(err):
		tb.Skip(err)
	case m.reported.CompareAndSwap(false, true):
		tb.Fatal(err)
	}
	tb.Skip("no Redis server to test with: another test of this package says what to install")
}
