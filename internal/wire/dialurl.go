// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// scope says in which URLs a parameter has an effect.
type scope uint8

const (
	always scope = iota
	overTCP
	overTLS
	sentinels
)

type parameter struct {
	scope scope // the URLs in which the parameter has an effect
	many  bool  // reports whether a URL may have the parameter more than once
	// set parses the value into o. rueidis.ParseURL has parsed its own parameters before, loosely.
	set func(o *rueidis.ClientOption, value string) error
}

// ParseURL returns the options for the URL address of signalbox.Dial. It refuses what it does not know, which
// rueidis.ParseURL ignores, and has parameters that rueidis.ParseURL lacks.
//
//  1. Every part and every parameter has a value and an effect, or is ErrBadOption by its name.
//  2. No error contains a value of the URL, so no password, even if the password is not escaped.
//  3. White space around the URL is ignored: files that secrets come from end in a line end.
func ParseURL(address string) (rueidis.ClientOption, error) {
	if address = strings.TrimSpace(address); address == "" {
		return refuse("the URL is empty: if it comes from an environment variable, that is not set")
	}
	u, err := url.Parse(address)
	if err != nil {
		return refuse("the URL is not of the form redis://[user:password@]host[:port][/db][?parameter=value&...]" + escapes)
	}
	// If the password has a character that ends it, the rest of it may be here.
	if u.Fragment != "" || strings.Contains(u.RawQuery, "@") {
		return refuse("the URL has a # or an @ behind its host: in a password or a value write %23, %3F for a ?, and %40")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("the parameters of the URL cannot be read: write %25 for a percent sign, and & between parameters")
	}
	if query.Has("db") && strings.Trim(u.Path, "/") != "" && u.Scheme != "unix" {
		return refuse("the URL names a database in its path and as the parameter db")
	}
	if err := checkHost(u); err != nil {
		return rueidis.ClientOption{}, err
	}
	o, malformed := rueidis.ParseURL(address)
	if err := check(&o, u.Scheme, u.RawQuery, query); err != nil { // first: it names the parameter
		return rueidis.ClientOption{}, err
	}
	if malformed != nil || o.SelectDB < 0 || o.SelectDB > math.MaxInt32 {
		return refuse("the URL is not of the form redis://[user:password@]host[:port][/db], rediss:// with TLS, or unix:///path; " +
			"a sentinel is such a host, beside the parameter master_set" + escapes)
	}
	o.ForceSingleClient = u.Scheme == "unix" // its dialer reaches no other node: a cluster's are host:port
	if o.TLSConfig != nil && !query.Has("server_name") {
		// rueidis.ParseURL sets the first host's. Without a name, each certificate is checked for the host that is dialled: also for
		// other nodes of the URL, those that a cluster or sentinels name, and those of a redirection.
		o.TLSConfig.ServerName = ""
	}
	if o.Sentinel.MasterSet != "" {
		o.Sentinel.TLSConfig = o.TLSConfig.Clone()
	}
	if err := CheckNames(&o); err != nil {
		return rueidis.ClientOption{}, err
	}
	return o, nil
}

// checkHost returns an error if a URL does not say what to connect to. rueidis.ParseURL would connect to this host, which excludes
// no other one: a variable of the environment is not set, or the text between scheme and host is not //.
func checkHost(u *url.URL) error {
	const variable = ": if it comes from an environment variable, that is not set"
	why := ""
	switch {
	case !slices.Contains([]string{"redis", "rediss", "valkey", "valkeys", "unix"}, u.Scheme):
		return nil // rueidis.ParseURL refuses it
	case u.Scheme == "unix" && (u.Opaque != "" || u.Host != ""):
		why = "a unix:// URL names a path from the root and no host: write three slashes, unix:///path, or unix://user:password@/path"
	case u.Scheme == "unix" && strings.Trim(u.Path, "/ ") == "":
		why = "the URL has no path" + variable
	case u.Scheme == "unix":
	case u.Opaque != "":
		why = "the URL has no // behind its scheme: write redis://[user:password@]host[:port][/db]"
	case u.Hostname() == "":
		why = "the URL has no host" + variable + "; a server on this host is redis://localhost"
	case strings.HasSuffix(u.Host, ":"):
		why = "the URL has a colon and no port behind its host" + variable + "; without the colon the port is 6379"
	default:
		if fault := addressFault(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))); fault != "" {
			why = "host and port of the URL: " + fault + "; further addresses are parameters addr"
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", errs.ErrBadOption, why)
}

// escapes says how to write what ends a user or a password in a URL.
const escapes = "; in a user, a password or the zone of an address write %25 for a percent sign, %2F for a /, %23 for a #, %3F for a ?, %40 for an @"

func refuse(why string) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("%w: %s", errs.ErrBadOption, why)
}

// check reads the parameters into o.
func check(o *rueidis.ClientOption, scheme, rawQuery string, query url.Values) error {
	for _, name := range sorted(query) {
		values := query[name]
		p, known := parameters[name]
		switch {
		case !known:
			// Not by its name, which may be a part of a password with an & in it.
			return fmt.Errorf("%w: a parameter of the URL is unknown: behind the ? it is number %d; known are %s; in a value write %%26 for an &",
				errs.ErrBadOption, positionOf(name, rawQuery), strings.Join(sorted(parameters), ", "))
		case len(values) > 1 && !p.many:
			return fmt.Errorf("%w: the URL has the parameter %s more than once", errs.ErrBadOption, name)
		case p.scope == overTCP && scheme == "unix":
			return fmt.Errorf("%w: the parameter %s is not for unix:// URLs", errs.ErrBadOption, name)
		case p.scope == overTLS && scheme != "rediss" && scheme != "valkeys":
			return fmt.Errorf("%w: the parameter %s is for rediss:// URLs, which have TLS", errs.ErrBadOption, name)
		case p.scope == sentinels && !query.Has("master_set"):
			return fmt.Errorf("%w: the parameter %s is for sentinels: it needs master_set", errs.ErrBadOption, name)
		}
		for _, value := range values {
			if strings.TrimSpace(value) == "" {
				return fmt.Errorf("%w: the parameter %s has no value: if it comes from an environment variable, that is not set", errs.ErrBadOption, name)
			}
			if err := p.set(o, value); err != nil {
				return fmt.Errorf("%w: the parameter %s: %w", errs.ErrBadOption, name, err)
			}
		}
	}
	if query.Has("cert") != query.Has("key") {
		return fmt.Errorf("%w: the parameters cert and key need each other", errs.ErrBadOption)
	}
	if query.Has("ca") && o.TLSConfig != nil && o.TLSConfig.InsecureSkipVerify {
		return fmt.Errorf("%w: the parameter ca has no effect beside skip_verify, with which no certificate is checked", errs.ErrBadOption)
	}
	if o.TLSConfig == nil || !query.Has("ca") && !query.Has("cert") {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(o.Dialer.Timeout, credentialsTimeout))
	defer cancel()
	files, err := readTLSFiles(ctx, query.Get("ca"), query.Get("cert"), query.Get("key"))
	if err == nil {
		files.setIn(o.TLSConfig)
	}
	return err
}

// positionOf returns which parameter of a query has a name; the first is 1.
func positionOf(name, rawQuery string) (position int) {
	for part := range strings.SplitSeq(rawQuery, "&") {
		position++
		if one, _ := url.ParseQuery(part); one.Has(name) { // the whole was parsed before
			break
		}
	}
	return position
}

// sorted returns the names of the parameters in order, so that of several errors the same one is
// always returned.
func sorted[V any](byName map[string]V) []string { return slices.Sorted(maps.Keys(byName)) }

// parameters are all parameters. The doc of signalbox.Dial lists them; a test compares the two.
//
//nolint:gochecknoglobals // a constant table
var parameters = map[string]parameter{
	"addr":          {overTCP, true, isAddress},
	"db":            {always, false, isDatabase},
	"dial_timeout":  {always, false, isDuration},
	"write_timeout": {always, false, isDuration},
	"protocol":      {always, false, oneOf("2", "3")},
	"client_name":   {always, false, isText},
	"client_cache":  {always, false, oneOf("0")},
	"max_retries":   {always, false, oneOf("0")},

	"skip_verify": {overTLS, false, oneOf("true", "false", "1", "0")},
	"server_name": {overTLS, false, setServerName},
	"ca":          {overTLS, false, isText}, // read by readTLSFiles
	"cert":        {overTLS, false, isText},
	"key":         {overTLS, false, isText},

	"master_set":        {overTCP, false, isText},
	"sentinel_username": {sentinels, false, setSentinelUser},
	"sentinel_password": {sentinels, false, setSentinelPassword},
}

// isText accepts every value: check refuses those that are empty.
func isText(*rueidis.ClientOption, string) error { return nil }

// isAddress requires both parts: rueidis.ParseURL uses the URL's own host if one is missing.
func isAddress(_ *rueidis.ClientOption, value string) error {
	fault := addressFault(value)
	if host, _, _ := net.SplitHostPort(value); fault == "" && host == "" {
		fault = notHostPort
	}
	if fault != "" {
		return errors.New(fault)
	}
	return nil
}

func isDatabase(_ *rueidis.ClientOption, value string) error {
	if n, err := strconv.Atoi(value); err != nil || n < 0 || n > math.MaxInt32 {
		return errors.New("it must be a number of 0 or more, as a server has them")
	}
	return nil
}

func isDuration(_ *rueidis.ClientOption, value string) error {
	if d, err := time.ParseDuration(value); err != nil || d < leastTimeout || d > mostTimeout {
		return errors.New("it must be a duration from 1ms to 24h, such as 2s")
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
	return nil
}

func setSentinelPassword(o *rueidis.ClientOption, value string) error {
	o.Sentinel.Password = value
	return nil
}
