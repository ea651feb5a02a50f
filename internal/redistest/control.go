// SPDX-License-Identifier: Apache-2.0

package redistest

// Kill ends the server with SIGKILL, also a frozen one, and returns when it is gone. Its
// clients see their connections closed. A server that has ended is left as it is.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.proc.end()
}

// Stop asks the server to shut down in order, as its operator would, and returns when it is
// gone. What clients see is the same as after Kill, since nothing is persisted.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.proc.terminate(); err != nil {
		s.report.failf("stop server %s: %v", s.Addr(), err)
	}
}

// Restart starts the server again on its port, empty, after killing it if it still runs.
// It returns when the server answers.
func (s *Server) Restart() {
	s.Kill()
	if err := s.launch(); err != nil {
		s.report.failf("redistest: restart: %v", err)
	}
}

// Freeze stops the process (SIGSTOP) and returns when it is stopped: connections stay open,
// new ones are accepted by the kernel, nothing is answered. Kill and the end of the
// test need no Thaw.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.proc.freeze(); err != nil {
		s.report.failf("freeze server %s: %v", s.Addr(), err)
	}
}

// Thaw lets a frozen server go on (SIGCONT).
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.proc.thaw(); err != nil {
		s.report.failf("thaw server %s: %v", s.Addr(), err)
	}
}
