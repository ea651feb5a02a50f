// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// parameters are all parameters. The doc of signalbox.Dial lists them; a test compares the two.
//
//nolint:gochecknoglobals // a constant table
var parameters = map[string]parameter{
	"addr":          {overTCP, true, isAddress},
	"db":            {always, false, isDatabase},
	"dial_timeout":  {always, false, isDuration},
	"write_timeout": {always, false, isDuration},
	"protocol":      {always, false, oneOf("2", "3")},
	"client_name":   {always, false, isThere},
	"client_cache":  {always, false, oneOf("0")},
	"max_retries":   {always, false, oneOf("0")},

	"skip_verify": {overTLS, false, isSwitch},
	"server_name": {overTLS, false, setServerName},
	"ca":          {overTLS, false, setAuthorities},
	"cert":        {overTLS, false, isThere}, // read by certify
	"key":         {overTLS, false, isThere},

	"master_set":        {overTCP, false, isThere},
	"sentinel_username": {sentinels, false, setSentinelUser},
	"sentinel_password": {sentinels, false, setSentinelPassword},
}

func isThere(_ *rueidis.ClientOption, value string) error {
	if value == "" {
		return errEmpty
	}
	return nil
}

// isAddress requires both parts: rueidis.ParseURL uses the URL's own host if one is missing.
func isAddress(_ *rueidis.ClientOption, value string) error {
	if host, port, err := net.SplitHostPort(value); err != nil || host == "" || port == "" {
		return errors.New("it must be host:port")
	}
	return nil
}

func isDatabase(_ *rueidis.ClientOption, value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 0 {
		return errors.New("it must be a number of 0 or more")
	}
	return nil
}

func isDuration(_ *rueidis.ClientOption, value string) error {
	if d, err := time.ParseDuration(value); err != nil || d <= 0 {
		return errors.New("it must be a duration of more than 0, such as 2s")
	}
	return nil
}

func isSwitch(_ *rueidis.ClientOption, value string) error {
	if _, err := strconv.ParseBool(value); err != nil && value != "" {
		return errors.New("it must be true or false")
	}
	return nil
}

// oneOf accepts the values to which rueidis.ParseURL gives a meaning.
func oneOf(values ...string) func(*rueidis.ClientOption, string) error {
	return func(_ *rueidis.ClientOption, value string) error {
		if slices.Contains(values, value) {
			return nil
		}
		return errors.New("it can only be " + strings.Join(values, " or "))
	}
}

func setServerName(o *rueidis.ClientOption, value string) error {
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = value
	}
	return isThere(o, value)
}

// setAuthorities makes the client trust the authorities in a file, and no others.
func setAuthorities(o *rueidis.ClientOption, file string) error {
	if err := isThere(o, file); err != nil {
		return err
	}
	text, err := os.ReadFile(file) //nolint:gosec // the program names it
	if err != nil {
		return unreadable(err)
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return errors.New("the file has no certificate in PEM")
	}
	if o.TLSConfig != nil {
		o.TLSConfig.RootCAs = trusted
	}
	return nil
}

// certify gives the client a certificate of its own.
func certify(o *rueidis.ClientOption, certificate, key string) error {
	if certificate == "" || o.TLSConfig == nil {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("%w: the parameters cert and key: %w", errs.ErrBadOption, unreadable(err))
	}
	o.TLSConfig.Certificates = []tls.Certificate{pair}
	return nil
}

// unreadable returns err without the path in it, which is a value of the URL.
func unreadable(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("the file cannot be read: %w", path.Err)
	}
	return err
}

func setSentinelUser(o *rueidis.ClientOption, value string) error {
	o.Sentinel.Username = value
	return isThere(o, value)
}

func setSentinelPassword(o *rueidis.ClientOption, value string) error {
	o.Sentinel.Password = value
	return isThere(o, value)
}
