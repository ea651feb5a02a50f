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
		port := firstPort + rand.N(endPort-firstPort)
		socket, err := net.ListenPacket("udp", loopback(port))
		if err != nil {
			continue
		}
		r := &reservation{port, socket}
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			r.free()
			continue
		}
		if err := l.Close(); err != nil {
			r.free()
			return nil, fmt.Errorf("redistest: free port: %w", err)
		}
		return r, nil
	}
	return nil, errors.New("redistest: no free port")
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
