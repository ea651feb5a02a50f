// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"strconv"
	"time"
)

// Option changes how servers are started.
type Option func(*config)

type config struct {
	args     []string
	failover time.Duration // 0: as quick as can be
	steps    *Clock        // the clock that the test sets, or nil
	secure   func() (*tlsSetup, error)
}

// WithArgs adds arguments to the command line of the server, such as "--maxmemory",
// "2mb", or of every server with data if there are more. They come last, so they win over
// those of this package. They must not set port, bind or requirepass, which this package needs
// as they are.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// WithFailoverAfter sets how long sentinels, or the nodes of a cluster, must have had no reply from a primary
// before its replica takes over. The default is as short as possible, for tests that wait for a failover. A
// test in which no failover must happen sets a time that no busy machine reaches, since a dead primary
// and a machine that stalls are alike.
func WithFailoverAfter(d time.Duration) Option {
	return func(c *config) { c.failover = d }
}

// WithTLS makes the server speak TLS, with a certificate made for it, and take clients that
// show none. Its Client and its Do know what to trust. It is for single servers.
func WithTLS() Option {
	return func(c *config) { c.secure = func() (*tlsSetup, error) { return newTLS(false) } }
}

// WithClientCertificates is WithTLS where clients must show a certificate, as those of Client and
// Do can.
func WithClientCertificates() Option {
	return func(c *config) { c.secure = func() (*tlsSetup, error) { return newTLS(true) } }
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}

// several checks that nothing was asked for that only a single server does.
func (c config) several() error {
	if c.secure != nil || c.steps != nil {
		return errors.New("redistest: TLS, and a clock of its own, are for single servers")
	}
	return nil
}

// setup is what a single server is started as.
func (c config) setup() (setup, error) {
	s := setup{args: c.args, steps: c.steps}
	if c.secure != nil {
		var err error
		if s.tls, err = c.secure(); err != nil {
			return setup{}, err
		}
	}
	return s, nil
}

// setup is what a server is started as.
type setup struct {
	bus   bool     // the server speaks to the other nodes of a cluster, on a port of its own
	first []string // words that come before all options
	args  []string // come last, so they win
	files []file   // the files in the server's folder when it starts
	keeps string   // the one that it rewrites, and finds again after a Restart
	tls   *tlsSetup
	steps *Clock // the clock that the test sets, or nil
}

// line is the command line of a server without persistence. DEBUG is enabled because DEBUG SLEEP
// is the simplest way to a server that is busy; before Redis 7.0 it always is. The server replies BUSY to no client, however long a
// script takes: on a loaded machine a script can take longer than the usual five seconds.
func (s *setup) line(binary string, port, bus int) []string {
	line := append([]string(nil), s.first...)
	line = append(line,
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--lua-time-limit", "0", // what newer servers call busy-reply-threshold
	)
	if !isOld(binary) {
		line = append(line, "--enable-debug-command", "local")
	}
	if s.tls == nil {
		line = append(line, "--port", strconv.Itoa(port))
	} else {
		line = append(line, "--port", "0", "--tls-port", strconv.Itoa(port))
		line = append(line, s.tls.args()...)
	}
	if bus != 0 && !isOld(binary) {
		line = append(line, "--cluster-port", strconv.Itoa(bus))
	}
	return append(line, s.args...)
}

// contents are the files of the next process; kept is what the last one left of the one it keeps.
func (s *setup) contents(kept string) []file {
	files := append([]file(nil), s.files...)
	if s.tls != nil {
		files = append(files, s.tls.files()...)
	}
	if kept == "" {
		return files
	}
	for i := range files {
		if files[i].name == s.keeps {
			files[i].text = kept
			return files
		}
	}
	return append(files, file{s.keeps, kept})
}

// milliseconds formats a duration for the command line of a server.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
