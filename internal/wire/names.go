// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
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

// canonical splits an address, and writes its host as all spellings of it are written: numbers in their short form
// and without a zone, names in lower case and without a dot at the end. An address without a host is at host self.
func canonical(address, self string) (host, port string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil { // an IPv6 host without brackets, as servers write it
		at := strings.LastIndexByte(address, ':')
		if at < 0 {
			return address, ""
		}
		host, port = address[:at], address[at+1:]
	}
	if host == "" || host == "?" {
		host = self
	}
	if number, err := netip.ParseAddr(host); err == nil {
		return number.Unmap().WithZone("").String(), port
	}
	return strings.ToLower(strings.TrimSuffix(host, ".")), port
}

// isNumber reports whether a host is an IP address.
func isNumber(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// SameAddress reports whether two addresses name the same server, as far as the addresses say: an address without a
// host is at any host.
func SameAddress(a, b string) bool {
	hostA, portA := canonical(a, "")
	hostB, portB := canonical(b, "")
	return portA == portB && (hostA == hostB || hostA == "" || hostB == "")
}

// MatchAddress returns which of the known addresses a named one means, or "". A server may be named by a host name
// and be known by a number, or the other way round: then the port decides, if one known address alone has it.
func MatchAddress(named string, known []string) string {
	host, port := canonical(named, "")
	var byPort []string
	for _, one := range known {
		if SameAddress(named, one) && host != "" {
			return one
		}
		if other, onePort := canonical(one, ""); onePort == port && (host == "" || isNumber(host) != isNumber(other)) {
			byPort = append(byPort, one)
		}
	}
	if len(byPort) == 1 {
		return byPort[0]
	}
	return ""
}

// KnownAs returns the name under which a client knows a node that another node named, or that name.
func KnownAs[V any](named, by string, nodes map[string]V) string {
	if host, port := canonical(named, ""); host == "" {
		host, _ = canonical(by, "")
		named = net.JoinHostPort(host, port)
	}
	if known := MatchAddress(named, slices.Sorted(maps.Keys(nodes))); known != "" {
		return known
	}
	return named
}
