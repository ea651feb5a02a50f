// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"time"
)

// Option changes how servers are started.
type Option func(*config)

type config struct {
	args     []string
	failover time.Duration // 0: as quick as can be
	ahead    time.Duration // the advance of the wall clock
	steps    *Clock        // the clock that the test sets, or nil
	links    bool          // nodes of a cluster have proxies before them
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
	return func(c *config) { c.secure = newTLS }
}

// WithClientCertificates is WithTLS where clients must show a certificate, as those of Client and
// Do can.
func WithClientCertificates() Option {
	return func(c *config) { c.secure = newMutualTLS }
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
	if c.secure != nil || c.ahead != 0 || c.steps != nil {
		return errors.New("redistest: TLS, and a clock of its own, are for single servers")
	}
	return nil
}

// setup is what a single server is started as.
func (c config) setup() (setup, error) {
	s := setup{args: c.args, ahead: c.ahead, steps: c.steps}
	if c.secure != nil {
		var err error
		if s.tls, err = c.secure(); err != nil {
			return setup{}, err
		}
	}
	return s, nil
}
