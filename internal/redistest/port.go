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

// freePort returns a loopback port that nobody listens on. Another process may take it
// before it is used; who uses it tries again with another.
func freePort() (int, error) {
	for range portTries {
		port := firstPort + rand.N(endPort-firstPort)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("redistest: free port: %w", err)
		}
		return port, nil
	}
	return 0, errors.New("redistest: no free port")
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
