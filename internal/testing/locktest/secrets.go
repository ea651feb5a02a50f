// SPDX-License-Identifier: Apache-2.0

package locktest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// User makes clients of a server as one of its users. The server may be several that a client sees as one.
type User struct {
	Server         redistest.Dialer
	Name, Password string
}

// Client returns a client of that user, closed when the test ends.
func (u User) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return u.Server.Client(tb, func(o *rueidis.ClientOption) {
		if mod != nil {
			mod(o)
		}
		o.Username, o.Password = u.Name, u.Password
		o.PipelineMultiplex = -1                       // one connection, made at once: later ones may be refused
		o.ClientSetInfo = rueidis.DisableClientSetInfo // see signalbox.Tune
	})
}

// Secrets records errors and logs, and the secrets that they must not have.
type Secrets struct {
	mu struct {
		sync.Mutex
		recorded bytes.Buffer
		secrets  []string
		broken   []string // errors of more than one line
	}
}

// NewSecrets fails the test at its end if a text that was recorded has a secret in it, or if an
// error has more than one line.
func NewSecrets(tb testing.TB) *Secrets {
	tb.Helper()
	s := new(Secrets)
	tb.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, text := range s.mu.broken {
			tb.Errorf("an error of more than one line: %q", text)
		}
		said := s.mu.recorded.String()
		for _, secret := range s.mu.secrets {
			if secret != "" && strings.Contains(said, secret) {
				tb.Errorf("%q is in:\n%s", secret, said)
			}
		}
	})
	return s
}

// Add names secrets.
func (s *Secrets) Add(secrets ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.secrets = append(s.mu.secrets, secrets...)
}

// AddSession makes secrets of the ids of a session and of all its holds, which begin with it.
func (s *Secrets) AddSession(of *signalbox.Session) { s.Add((*session.Handle)(of).Session().ID()) }

// RecordError records an error that a caller got, and returns it.
func (s *Secrets) RecordError(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	_, _ = s.Write([]byte(text + "\n"))
	if strings.Contains(text, "\n") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.broken = append(s.mu.broken, text)
	}
	return err
}

// Write implements io.Writer, for a log.
func (s *Secrets) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.recorded.Write(line)
}

// Recorded returns everything so far.
func (s *Secrets) Recorded() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.recorded.String()
}

// Logger returns a logger whose output is recorded.
func (s *Secrets) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }
