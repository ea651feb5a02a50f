// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

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

// parameter is a parameter that a URL can have.
type parameter struct {
	scope scope // the URLs in which the parameter has an effect
	many  bool  // reports whether a URL may have the parameter more than once
	// set parses the value into o. rueidis.ParseURL has parsed its own parameters before, loosely.
	set func(o *rueidis.ClientOption, value string) error
}

// ParseURL returns the options for the URL address of signalbox.Dial. It refuses what it does not know, which
// rueidis.ParseURL ignores, and has parameters that rueidis.ParseURL lacks.
//
//  1. Every parameter has an effect, or is ErrBadOption by its name.
//  2. No error contains a value of the URL, so no password, even if the password is not escaped.
func ParseURL(address string) (rueidis.ClientOption, error) {
	if strings.TrimSpace(address) == "" {
		return refuse("the URL is empty: if it comes from an environment variable, that is not set")
	}
	u, err := url.Parse(address)
	if err != nil {
		return refuse("the URL is not of the form redis://[user:password@]host[:port][/db][?parameter=value&...]")
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
	o, malformed := rueidis.ParseURL(address)
	if err := check(&o, u.Scheme, query); err != nil { // first: it names the parameter
		return rueidis.ClientOption{}, err
	}
	if malformed != nil || o.SelectDB < 0 {
		return refuse("the URL is not of the form redis://[user:password@]host[:port][/db], rediss:// with TLS, or unix:///path")
	}
	if o.TLSConfig != nil && o.Sentinel.MasterSet != "" {
		if !query.Has("server_name") {
			o.TLSConfig.ServerName = "" // each of several hosts has a name of its own
		}
		o.Sentinel.TLSConfig = o.TLSConfig.Clone()
	}
	return o, nil
}

func refuse(why string) (rueidis.ClientOption, error) {
	return rueidis.ClientOption{}, fmt.Errorf("%w: %s", errs.ErrBadOption, why)
}

// check reads the parameters into o.
func check(o *rueidis.ClientOption, scheme string, query url.Values) error {
	for _, name := range sorted(query) {
		values := query[name]
		p, known := parameters[name]
		switch {
		case !known:
			return fmt.Errorf("%w: the URL has the unknown parameter %q; known are %s", errs.ErrBadOption, shorten(name), strings.Join(sorted(parameters), ", "))
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
			if err := p.set(o, value); err != nil {
				return fmt.Errorf("%w: the parameter %s: %w", errs.ErrBadOption, name, err)
			}
		}
	}
	if query.Has("cert") != query.Has("key") {
		return fmt.Errorf("%w: the parameters cert and key need each other", errs.ErrBadOption)
	}
	return certify(o, query.Get("cert"), query.Get("key"))
}

// sorted returns the names of the parameters in order, so that of several errors the same one is
// always returned.
func sorted[V any](byName map[string]V) []string { return slices.Sorted(maps.Keys(byName)) }

// shorten bounds the length of a name that an error repeats.
func shorten(name string) string { return name[:min(len(name), 32)] }

// errEmpty says that a parameter has no value.
var errEmpty = errors.New("it has no value")
