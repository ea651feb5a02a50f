// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Server is a Redis or Valkey server on a loopback port, without persistence. All
// methods may be called from any goroutine.
type Server struct {
	report reporter
	binary string
	args   []string // after those of serverArgs
	port   int

	mu struct {
		sync.Mutex
		proc *supervised // the running or last one
		log  *tail       // of proc
	}
}

const (
	// startLimit bounds the start of a server, which takes 10 to 50 ms.
	startLimit = 20 * time.Second
	// startTries is how many free ports are tried. A second one is needed only if
	// another process takes the port between the look and the start.
	startTries = 5
)

// errNotStarted says that a server ended before it answered, as it does if its port is taken.
var errNotStarted = errors.New("redistest: server ended at its start")

// Start runs a server until the test ends. It fails the test at once if there is none to
// run or it does not answer.
func Start(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	s, err := start(reporter{tb}, newConfig(opts))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// StartServer is Start for programs that are no tests. The caller must Close the server;
// if the program ends without, the server ends with it.
func StartServer(opts ...Option) (*Server, error) {
	return start(reporter{}, newConfig(opts))
}

func start(r reporter, c config) (*Server, error) {
	binary, err := serverBinary()
	if err != nil {
		return nil, err
	}
	s := &Server{report: r, binary: binary, args: c.args, port: c.port}
	for range startTries {
		if c.port == 0 {
			if s.port, err = freePort(); err != nil {
				return nil, err
			}
		}
		err = s.launch()
		if err == nil || c.port != 0 || !errors.Is(err, errNotStarted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Addr returns the server's address, "127.0.0.1:port". It never changes.
func (s *Server) Addr() string { return loopback(s.port) }

// URL returns the server's address as "redis://127.0.0.1:port".
func (s *Server) URL() string { return "redis://" + s.Addr() }

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

// Close is Kill, named for programs that defer it.
func (s *Server) Close() { s.Kill() }

// launch starts a process on the server's port and waits until it answers.
func (s *Server) launch() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := new(tail)
	proc, err := supervise(program{path: s.binary, args: serverArgs(s.port, s.args), log: log})
	if err != nil {
		return err
	}
	if err := s.await(proc); err != nil {
		proc.end()
		return fmt.Errorf("%w; %s on port %d logged:\n%s", err, s.binary, s.port, log)
	}
	s.mu.proc, s.mu.log = proc, log
	return nil
}

// await returns when proc answers. It asks for the process id, since after a lost race for
// the port the server that answers is another one.
func (s *Server) await(proc *supervised) error {
	var last error
	answers := func() bool {
		var info infoSections
		if info, last = askInfo(s.Addr(), time.Second, "server"); last != nil {
			return false
		}
		if pid := info["process_id"]; pid != strconv.Itoa(proc.pid) {
			last = fmt.Errorf("redistest: process %s has the port", pid)
			return false
		}
		return true
	}
	if poll(startLimit, func() bool { return !proc.running() || answers() }) && proc.running() {
		return nil
	}
	if !proc.running() {
		return errNotStarted
	}
	return fmt.Errorf("redistest: server did not answer within %v: %w", startLimit, last)
}
