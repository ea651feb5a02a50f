// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// Kill ends the server with SIGKILL, also a frozen one, and returns when it is gone. Its
// clients see their connections closed. A server that has ended is left as it is.
func (s *Server) Kill() {
	tally.Fault("server killed")
	s.kill()
}

func (s *Server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLocked()
}

// Stop asks the server to shut down in order, as its operator would, and returns when it is
// gone. What clients see is the same as after Kill, since nothing is persisted.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.endLocked()
	if err := s.mu.proc.terminate(); err != nil {
		s.report.failf("stop server %s: %v", s.Addr(), err)
	}
}

// Restart starts the server again on its port, empty, after killing it if it still runs. It returns when
// the server accepts commands. A node of a cluster and a sentinel know what they knew before of the others.
func (s *Server) Restart() {
	s.kill()
	if err := s.launch(); err != nil {
		s.report.failf("redistest: restart: %v", err)
	}
}

// endLocked ends the process and its folder, and keeps the file that the next one is to find. The file
// is read when the process is dead: what it wrote last is a promise to others, such as a vote.
func (s *Server) endLocked() {
	if name := s.set.keeps; name != "" {
		_ = s.mu.proc.kill() // it may have ended before; end makes sure
		if text, err := os.ReadFile(filepath.Join(s.mu.proc.dir, name)); err == nil {
			s.mu.kept = withoutFolder(string(text))
		}
	}
	s.mu.proc.end()
}

// withoutFolder leaves out the line in which a sentinel notes the folder that it runs in.
func withoutFolder(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "dir ") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// Freeze stops the process (SIGSTOP) and returns when it is stopped. Connections stay open, the kernel
// accepts new ones, and the server sends no replies. Kill and the end of the test need no Thaw.
func (s *Server) Freeze() {
	tally.Fault("server stopped (SIGSTOP)")
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.proc.freeze(); err != nil {
		s.report.failf("freeze server %s: %v", s.Addr(), err)
	}
}

// Thaw continues a frozen server (SIGCONT).
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.proc.thaw(); err != nil {
		s.report.failf("thaw server %s: %v", s.Addr(), err)
	}
}

const (
	// viewLimit bounds how long one of several servers is waited for when all are asked for
	// what they see. A frozen one is taken for absent, and one of a machine that stalls for a moment is not.
	viewLimit = 2 * time.Second
	// changeLimit bounds changes in which servers must agree. They take seconds.
	changeLimit = time.Minute
)

// startAll starts servers at once. If one fails, none is left.
func startAll(r reporter, sets ...setup) ([]*Server, error) {
	if _, err := serverBinary(); err != nil {
		return nil, err // once, not by each of them
	}
	servers, errs := make([]*Server, len(sets)), make([]error, len(sets))
	var group sync.WaitGroup
	for i, set := range sets {
		group.Go(func() { servers[i], errs[i] = start(r, set) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		closeAll(servers)
		return nil, err
	}
	return servers, nil
}

// closeAll closes those that there are, at once.
func closeAll(servers []*Server) {
	var group sync.WaitGroup
	for _, s := range servers {
		if s != nil {
			group.Go(s.Close)
		}
	}
	group.Wait()
}

// all calls holds for every server at once, and reports whether it returned true for each.
func all(servers []*Server, holds func(*Server) bool) bool {
	replies := make([]bool, len(servers))
	var group sync.WaitGroup
	for i, s := range servers {
		group.Go(func() { replies[i] = holds(s) })
	}
	group.Wait()
	return !slices.Contains(replies, false)
}

// linked reports whether the server is a replica that has all that its primary had.
func (s *Server) linked() bool {
	info, err := s.at().info(viewLimit, "replication")
	return err == nil && info["role"] == "slave" && info["master_link_status"] == "up"
}

// AwaitCopied waits until a replica of the server has all that was written before the call, so that none of
// it is lost if the replica takes over. (WAIT does not help: it reports on the writes of its own
// connection, and Do opens a connection for each command.)
func (s *Server) AwaitCopied(tb testing.TB, replica *Server) {
	tb.Helper()
	written := s.integer(s.info("replication")["master_repl_offset"])
	copied := func() bool {
		info, err := replica.at().info(viewLimit, "replication")
		return err == nil && info["role"] == "slave" && s.integer(info["slave_repl_offset"]) >= written
	}
	mustPollUntil(tb, "a replica at "+replica.Addr()+" with all that "+s.Addr()+" has", copied, replica.Log)
}

// isPrimary reports whether the server says that it is a primary.
func (s *Server) isPrimary() bool {
	info, err := s.at().info(viewLimit, "replication")
	return err == nil && info["role"] == "master"
}

// mustPollUntil fails the test unless done returns true in time. saw describes the last state for the failure
// message.
func mustPollUntil(tb testing.TB, what string, done func() bool, saw func() string) {
	tb.Helper()
	if !PollUntil(changeLimit, done) {
		tb.Fatalf("redistest: not within %v: %s; there is:\n%s", changeLimit, what, saw())
	}
}
