// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"net"
	"strings"

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
	if o.DialCtxFn != nil || o.DialFn != nil { // which knows what its addresses mean
		return nil
	}
	for _, address := range o.InitAddress {
		if _, port, err := net.SplitHostPort(address); err != nil || !isPort(port) {
			return fmt.Errorf("%w: an address in InitAddress%s is not host:port; a URL is for Dial", errs.ErrBadOption, quotedAddress(address))
		}
	}
	return nil
}

// isPort reports whether connections can be made to a port: a number of 1 or more, or the name of a service.
func isPort(port string) bool {
	number, err := net.LookupPort("tcp", port)
	return err == nil && number > 0
}

// quotedAddress returns an address for an error, without what may be a password.
func quotedAddress(address string) string {
	if strings.Contains(address, "@") {
		return ""
	}
	return fmt.Sprintf(", %.100q,", address)
}
