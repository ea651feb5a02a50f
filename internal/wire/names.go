// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// CheckNames returns ErrBadOption for an address or a name of connections in o that no server can have. Neither is a
// fault that waiting ends, and the words with which a system or a server refuses them do not say where they were set.
func CheckNames(o *rueidis.ClientOption) error {
	for option, name := range map[string]string{"ClientName": o.ClientName, "Sentinel.ClientName": o.Sentinel.ClientName} {
		if strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' }) {
			return fmt.Errorf("%w: %s (client_name in a URL) has a blank, or a character that is not ASCII: servers refuse such a name", errs.ErrBadOption, option)
		}
	}
	hasDialer := o.DialCtxFn != nil || o.DialFn != nil // which knows what its addresses mean
	for i, address := range o.InitAddress {
		fault := mistakenName(address)
		if !hasDialer {
			fault = addressFault(address)
		}
		if fault != "" {
			return fmt.Errorf("%w: address %d of %d: %s", errs.ErrBadOption, i+1, len(o.InitAddress), fault)
		}
	}
	return nil
}

const notHostPort = "it is not host:port, with a port from 1 to 65535"

// addressFault says what is wrong with an address to which no connection can be made, or "". It quotes none of it, since a text in
// the wrong place may be one with a password.
func addressFault(address string) string {
	host, port, err := net.SplitHostPort(address)
	switch fault := mistakenName(address); {
	case fault != "":
		return fault
	case err != nil, !isPort(port), strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune(",;/", r) }):
		return notHostPort
	}
	return ""
}

// mistakenName says that an address is a URL, or a text with settings, as other clients have them; else it returns "". No dialer can
// mean such a text: a path may have any character, and no name of a host has these. An @ in front is a socket without a file.
func mistakenName(address string) string {
	switch {
	case strings.HasPrefix(address, "/"), strings.HasPrefix(address, "."):
	case strings.Contains(address, "://"):
		return "it is a URL: give it to signalbox.Dial, or host:port alone here"
	case strings.ContainsAny(strings.TrimPrefix(address, "@"), "=@"):
		return "it has an = or an @: give host:port alone; user, password and TLS are options of their own"
	}
	return ""
}

// isPort reports whether connections can be made to a port: a number of 1 or more, or the name of a service.
func isPort(port string) bool {
	number, err := net.LookupPort("tcp", port)
	return err == nil && number > 0
}

// The bounds of times in the options of a client. A shorter one would try, or probe, without pause.
const (
	leastTimeout  = time.Millisecond
	leastInterval = 10 * time.Millisecond
	mostTimeout   = 24 * time.Hour
	mostDelay     = time.Second // of a request that waits for others
)

// CheckNumbers returns ErrBadOption for a number in o with which no client works: it would panic, never send, or send without
// pause. 0 is the client's default everywhere, and a negative interval turns off what it is for.
func CheckNumbers(o *rueidis.ClientOption) error {
	const mostRing, mostBuffer = 20, 1 << 30 // a power of two, and bytes
	for option, n := range map[string]struct{ is, most int }{
		"SelectDB":            {o.SelectDB, math.MaxInt32},
		"RingScaleEachConn":   {o.RingScaleEachConn, mostRing},
		"ReadBufferEachConn":  {o.ReadBufferEachConn, mostBuffer},
		"WriteBufferEachConn": {o.WriteBufferEachConn, mostBuffer},
		"PipelineMultiplex":   {max(o.PipelineMultiplex, 0), rueidis.MaxPipelineMultiplex}, // less is one connection
	} {
		if n.is < 0 || n.is > n.most {
			return fmt.Errorf("%w: %s is %d: it must be from 0 to %d", errs.ErrBadOption, option, n.is, n.most)
		}
	}
	for option, t := range map[string]struct{ is, least, most time.Duration }{
		"Dialer.Timeout":          {o.Dialer.Timeout, leastTimeout, mostTimeout},
		"Sentinel.Dialer.Timeout": {o.Sentinel.Dialer.Timeout, leastTimeout, mostTimeout},
		"ConnWriteTimeout":        {o.ConnWriteTimeout, leastTimeout, mostTimeout},
		"MaxFlushDelay":           {o.MaxFlushDelay, 1, mostDelay},
		// Here less than 0 is off.
		"ConnLifetime":                        {max(o.ConnLifetime, 0), leastInterval, math.MaxInt64},
		"Dialer.KeepAlive":                    {max(o.Dialer.KeepAlive, 0), leastInterval, math.MaxInt64},
		"Sentinel.Dialer.KeepAlive":           {max(o.Sentinel.Dialer.KeepAlive, 0), leastInterval, math.MaxInt64},
		"Sentinel.TopologyRefreshInterval":    {max(o.Sentinel.TopologyRefreshInterval, 0), leastInterval, math.MaxInt64},
		"ClusterOption.ShardsRefreshInterval": {max(o.ClusterOption.ShardsRefreshInterval, 0), leastInterval, math.MaxInt64},
	} {
		if t.is != 0 && (t.is < t.least || t.is > t.most) {
			return fmt.Errorf("%w: %s is %v: it must be from %v to %v", errs.ErrBadOption, option, t.is, t.least, t.most)
		}
	}
	return nil
}
