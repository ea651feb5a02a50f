// SPDX-License-Identifier: Apache-2.0

package redistest

// Option changes how a server is started.
type Option func(*config)

type config struct {
	port int // 0: any free one
	args []string
}

// WithPort makes the server listen on a given loopback port. Without it, Start picks a
// free one.
func WithPort(port int) Option {
	return func(c *config) { c.port = port }
}

// WithArgs adds arguments to the command line of the server, such as "--maxmemory",
// "2mb". They come last, so they win over those of this package. They must not set port,
// bind or requirepass, which this package needs as they are.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}
