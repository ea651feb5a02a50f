// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"path/filepath"
	"strings"

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
