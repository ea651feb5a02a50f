// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Dial connects to a server, checks that it is new enough and no replica, and returns a session whose
// Close also closes the connection. Its errors name the host and say what to do. It takes four round
// trips on one server, and a fifth if the server does not have the script for the check yet. These URLs are valid; valkey:// and valkeys:// mean the
// same as redis:// and rediss://:
//
//	redis://[user:password@]host[:port][/db]                     port 6379 and database 0 by default
//	rediss://...                                                 the same with TLS
//	unix://[user:password@]/path/to/redis.sock[?db=number]       one server, or a cluster of one node
//	redis://sentinel1:26379?addr=sentinel2:26379&master_set=name a primary of sentinels
//
// In a password, characters such as @ : / ? # % must be escaped, an @ as %40: url.UserPassword does
// that. These are the parameters. Only addr may be repeated:
//
//	addr               another node of the cluster, or another sentinel, host:port
//	db                 the number of the database, instead of the path
//	dial_timeout       how long making a connection may take, from 1ms to 24h; 2s by default
//	write_timeout      how long a silent connection counts as alive, from 1ms to 24h; 2s by default
//	protocol           2 or 3, the version of RESP; 3 by default
//	client_name        the name of the connections on the server
//	client_cache       only 0: signalbox caches nothing in the client
//	max_retries        only 0: the client repeats no command by itself
//	skip_verify        true: TLS without a check of the server's certificate, for tests
//	server_name        the name that certificates must have, instead of the host's
//	ca                 a PEM file: the client trusts these authorities and no others
//	cert, key          PEM files: the client's own certificate and its private key
//	master_set         the host is a sentinel, and watches a primary under this name
//	sentinel_username  the user at the sentinels; user and password are for the server alone
//	sentinel_password  the password at the sentinels
//
// The parameters skip_verify, server_name, ca, cert and key need rediss://, and also apply to
// sentinels. Files are read again for each connection. If the URL has no host, or a parameter is
// unknown, has no value, or has no effect in that URL, Dial returns ErrBadOption. Errors never
// contain the password. With WithLazyConnect Dial connects later, and does not fail if the server is away.
func Dial(ctx context.Context, url string, options ...SessionOption) (*Session, error) {
	o, err := wire.ParseURL(url) //nolint:contextcheck // it has no context, and bounds the time of its files
	if err != nil {
		return nil, fmt.Errorf("signalbox: dial: %w", err)
	}
	return DialWith(ctx, o, options...)
}

// ParseURL returns the options for a URL of Dial, such as for DialWith, or for Tune and a client of your own. It connects
// to nothing. If Dial refuses the URL, ParseURL returns the same ErrBadOption.
func ParseURL(url string) (rueidis.ClientOption, error) {
	o, err := wire.ParseURL(url)
	if err != nil {
		return rueidis.ClientOption{}, fmt.Errorf("signalbox: %w", err)
	}
	return o, nil
}

// DialWith is Dial for what no URL can say: a TLS configuration in memory, a function for credentials, a dialer. It tunes a
// copy of o (see Tune), and makes a client of it, which Close closes. Modules contrib/goredis and contrib/valkeygo make such options of
// those of other clients.
//
// It returns ErrBadOption if o names no server, names something as no server accepts it, or has a number with which no
// client works: such as a timeout that is negative, shorter than 1 ms or longer than 24 h. With ForceSingleClient, a node of
// a cluster that has several is ErrUnsupported.
func DialWith(ctx context.Context, o rueidis.ClientOption, options ...SessionOption) (*Session, error) {
	switch {
	case ctx == nil:
		return nil, fmt.Errorf("signalbox: dial: %w: the context is nil", ErrBadOption)
	case len(o.InitAddress) == 0:
		return nil, fmt.Errorf("signalbox: dial: %w: InitAddress is empty: name a server, host:port", ErrBadOption)
	}
	set := collect(options)
	if set.SentinelCredentials != nil && o.Sentinel.MasterSet == "" {
		return nil, fmt.Errorf("signalbox: dial: %w: WithSentinelCredentials needs sentinels: the parameter master_set, or Sentinel.MasterSet", ErrBadOption)
	}
	if err := cmp.Or(wire.CheckNames(&o), wire.CheckNumbers(&o)); err != nil {
		return nil, fmt.Errorf("signalbox: dial: %w", err)
	}
	d := &clientMaker{options: o}
	d.recorder = wire.NewDialRecorder(&d.options)
	d.connector = tune(&d.options, d.recorder.Dial, set.SentinelCredentials)
	s, err := d.dial(ctx, set)
	if err != nil {
		return nil, fmt.Errorf("signalbox: dial: %w", err)
	}
	return (*Session)(s.Handle()), nil
}

// clientMaker makes the client of a session, and checks its server.
type clientMaker struct {
	options   rueidis.ClientOption // tuned
	recorder  *wire.DialRecorder
	connector *wire.Connector
	limit     time.Duration // how long the checks of a server may take; 0 if only the context ends them
}

// dial returns a session on a client, which is made before or, if the settings say so, meanwhile and later.
func (d *clientMaker) dial(ctx context.Context, set session.Settings) (s *session.Session, err error) {
	if !set.Lazy {
		_, err = d.connect(ctx, func(client rueidis.Client) (*session.Session, *wire.Runner) {
			s = session.New(client, set, true)
			return s, s.Runner
		})
		return s, err
	}
	if ctx.Err() != nil {
		return nil, errs.Ended(ctx)
	}
	d.limit = d.options.Dialer.Timeout + d.options.ConnWriteTimeout
	late := wire.NewLateClient(d.connector, d.limit)
	s = session.New(d.connector.ClientOf(late), set, true)
	if err = cmp.Or(s.Ready(), d.connector.Check()); err != nil {
		late.Close()
		return nil, err
	}
	late.Start(func(ctx context.Context) (rueidis.Client, error) {
		d.recorder.Restart()
		return d.connect(ctx, func(client rueidis.Client) (*session.Session, *wire.Runner) { return s, wire.NewRunner(client) })
	})
	return s, nil
}

// connect makes a client whose server is one for the session that of returns. The Runner is one on the client.
func (d *clientMaker) connect(ctx context.Context, of func(rueidis.Client) (*session.Session, *wire.Runner)) (rueidis.Client, error) {
	client, err := newClient(ctx, d.options)
	if err != nil {
		return nil, d.explain(ctx, err)
	}
	client = d.connector.ClientOf(client)
	s, runner := of(client)
	if err = s.Ready(); err == nil {
		err = d.check(ctx, client, s, runner)
	}
	if err != nil {
		if errors.Is(err, ErrDenied) && isSentinel(ctx, client) {
			err = wire.AsFinal(fmt.Errorf("%w: the server is a sentinel: add the parameter master_set to the URL, or Sentinel.MasterSet to the options, "+
				"with the name of the primary that it watches", ErrBadOption))
		}
		client.Close()
		return nil, d.explain(ctx, err)
	}
	if disagreement := wire.SentinelDisagreement(ctx, d.options); disagreement != "" { // now: explain would take its attempts for the client's
		s.Logs.Warn("signalbox: the sentinels name different primaries, and the client believes the first that replies", "primaries", disagreement)
	}
	return client, nil
}

// check is checkServer within the limit.
func (d *clientMaker) check(ctx context.Context, client rueidis.Client, s *session.Session, r *wire.Runner) error {
	if d.limit == 0 {
		return checkServer(ctx, client, s, r)
	}
	ctx, cancel := errs.WithTimeout(ctx, d.limit)
	defer cancel()
	return errs.OfCall(ctx, checkServer(ctx, client, s, r))
}

// checkServer returns an error if the client of one server is connected to a replica, as behind an endpoint for readers, or to a
// node of a cluster whose other nodes it would never reach. Behind sentinels and in a cluster the client finds the primaries
// itself. A server that does not say is neither. Last it asks the server whether it is new enough, which the session remembers; in a
// cluster any node that replies.
func checkServer(ctx context.Context, client rueidis.Client, s *session.Session, r *wire.Runner) error {
	if client.Mode() == rueidis.ClientModeStandalone {
		if err := refuseServer(ctx, client, s, r); err != nil {
			return err
		}
	}
	err := s.Handshakes.GreetAny(ctx, r)
	if err != nil && ctx.Err() != nil {
		return errs.Ended(ctx)
	}
	return err
}

func refuseServer(ctx context.Context, client rueidis.Client, s *session.Session, r *wire.Runner) error {
	fields := make(map[string]string)
	for _, reply := range client.DoMulti(ctx, client.B().Info().Section("replication").Build(), client.B().Info().Section("cluster").Build()) {
		info, _ := reply.ToString() // an error is such as a missing right
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			fields[name] = value
		}
	}
	switch {
	case fields["role"] == "slave":
		return fmt.Errorf("%w: it is a replica of %s: locks need the primary, so name the primary's endpoint and not one for readers",
			ErrRefused, net.JoinHostPort(fields["master_host"], fields["master_port"]))
	case fields["cluster_enabled"] == "1":
		return s.Handshakes.ReachesSlots(ctx, r)
	}
	return nil
}

// isSentinel reports whether the client is connected to a sentinel, which runs no scripts.
func isSentinel(ctx context.Context, client rueidis.Client) bool {
	role, err := client.Do(ctx, client.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	word, err := role[0].ToString()
	return err == nil && word == "sentinel"
}

// explain says which host an error of an attempt is about, and what is wrong with it. If ctx has ended, its
// end is all that there is to say.
func (d *clientMaker) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrBadOption) {
		return err
	}
	return d.recorder.Explain(ctx, err)
}

// newClient calls rueidis.NewClient, which takes no context, and returns when ctx ends. A client that
// is made after that is closed.
func newClient(ctx context.Context, o rueidis.ClientOption) (rueidis.Client, error) {
	if ctx.Err() != nil {
		return nil, errs.Ended(ctx)
	}
	type result struct {
		client rueidis.Client
		err    error
	}
	connected := make(chan result, 1)
	o.InitAddress = slices.Clone(o.InitAddress) // the client may change their order
	go func() {
		client, err := rueidis.NewClient(o)
		if err != nil && wire.RefusesClusterCommands(o, err) {
			o.ForceSingleClient = true
			client, err = rueidis.NewClient(o)
		}
		connected <- result{client, err}
	}()
	select {
	case r := <-connected:
		return r.client, errs.OfCall(ctx, r.err)
	case <-ctx.Done():
		go func() {
			if r := <-connected; r.client != nil {
				r.client.Close()
			}
		}()
		return nil, errs.Ended(ctx)
	}
}
