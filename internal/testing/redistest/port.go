// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are picked from [firstPort, endPort), below the range from which Linux takes the
// local ports of outgoing connections (32768 and up by default). A server that is down
// between Kill and Restart keeps its port that way: neither a connection of another
// process nor the client that redials it, and would end up connected to itself, can
// be given that port.
const (
	firstPort = 20000
	endPort   = 32000
	portTries = 100
)

// reservation keeps a loopback port from every other server and proxy of this package, in any process, even
// while nothing listens on it. That is more than convenience: sentinels and nodes of a cluster keep calling
// one of them that is down, and would mistake any server on its port for it.
//
// It is a UDP socket of the same number, which nothing else here uses. A TCP socket would conflict with the
// server. The kernel closes it however the process ends.
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
