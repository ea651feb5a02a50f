// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"testing"

	"github.com/redis/rueidis"
)

// Topology is servers that a client sees as one: a [Server], a [Sentinel] or a [Cluster].
type Topology interface {
	// Name returns what it is, in a word that suits the name of a subtest.
	Name() string
	// Client returns a client of the whole that is closed when the test ends. mod, if not
	// nil, changes its options, of which only those are set that it takes to find the servers.
	Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client
	// Servers returns every server of it, sentinels included.
	Servers() []*Server
	// Close ends all of them.
	Close()
}

// Starter runs a topology.
type Starter struct {
	// Name is what the topology's Name will return.
	Name string
	// Start runs it. The caller must Close the topology; if the program ends without, the
	// topology ends with it.
	Start func(...Option) (Topology, error)
}

// Topologies returns what runs each topology that there is, the single server first.
func Topologies() []Starter {
	return []Starter{
		{nameSingle, func(o ...Option) (Topology, error) { return topology(StartServer(o...)) }},
		{nameTLS, func(o ...Option) (Topology, error) {
			return topology(StartServer(append([]Option{WithTLS()}, o...)...))
		}},
		{nameMutualTLS, func(o ...Option) (Topology, error) {
			return topology(StartServer(append([]Option{WithClientCertificates()}, o...)...))
		}},
		{nameSentinel, func(o ...Option) (Topology, error) { return topology(RunSentinel(o...)) }},
		{nameCluster, func(o ...Option) (Topology, error) { return topology(RunCluster(o...)) }},
	}
}

const (
	nameSingle    = "single"
	nameTLS       = "tls"
	nameMutualTLS = "mutual-tls"
	nameSentinel  = "sentinel"
	nameCluster   = "cluster"
)

// topology keeps a nil pointer from becoming an interface that is not nil.
func topology[T Topology](t T, err error) (Topology, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Name returns "single", "tls" or "mutual-tls".
func (s *Server) Name() string {
	switch {
	case s.set.tls == nil:
		return nameSingle
	case s.set.tls.mutual():
		return nameMutualTLS
	default:
		return nameTLS
	}
}

// Servers returns the server.
func (s *Server) Servers() []*Server { return []*Server{s} }

// Protocol is a version of what a client speaks.
type Protocol struct {
	Name string
	// Set makes a client speak it.
	Set func(*rueidis.ClientOption)
}

// Protocols returns both versions. In RESP2 a client has a further connection for
// subscriptions, and caches nothing.
func Protocols() []Protocol {
	return []Protocol{{"resp3", RESP3}, {"resp2", RESP2}}
}

// RESP3 makes a client speak RESP3, as it does by itself.
func RESP3(o *rueidis.ClientOption) { o.AlwaysRESP2 = false }

// RESP2 makes a client speak RESP2.
func RESP2(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true }
