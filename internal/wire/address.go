// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
)

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
