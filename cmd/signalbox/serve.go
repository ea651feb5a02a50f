// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/inspect/inspecthttp"
)

const serveHelp = `Serve a page with the names in use that begin with PREFIX at /, and metrics for Prometheus at
/metrics. The pages need no JavaScript, and reload themselves. A request that accepts application/json gets JSON. All
requests share one list, which is kept up to date for 30 s after each. Its holders and waiters are at
most --every old. It takes at most a tenth of the server's time: a name that is new appears within about 10 s for each
million keys that the server has. signalbox_list_age_seconds says how late.

It listens on loopback unless --listen says otherwise, and has no passwords: a client that reaches it can read names,
labels and the values of leaders. On loopback it serves only requests for a loopback host, so that no page of another site can
read it through a browser.

Nothing can be broken through it, unless --allow-break is set: then a form asks for the token in
$` + envBreakToken + `, or in the file that --break-token-file or $` + envBreakTokenFile + ` names. The token has 16 characters or more.

It ends at SIGINT, SIGTERM, SIGQUIT or SIGHUP, and reads files with secrets anew by itself.`

const (
	envBreakToken     = "SIGNALBOX_BREAK_TOKEN"
	envBreakTokenFile = "SIGNALBOX_BREAK_TOKEN_FILE"
	// shortestToken is the least length of a token.
	shortestToken = 16
)

// The limits of a connection.
const (
	headerTimeout   = 5 * time.Second
	readTimeout     = 10 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = time.Minute
	shutdownTimeout = 3 * time.Second
	largestHeader   = 16 << 10
)

type serveFlags struct {
	server *serverFlags

	listen     string
	every      time.Duration
	allowBreak bool
	tokenFile  string
}

func newServe(s *serverFlags) *cobra.Command {
	f := &serveFlags{server: s}
	cmd := &cobra.Command{
		Use:     "serve [flags] [PREFIX]",
		GroupID: groupSee,
		Short:   "Serve the names in use as a page and as metrics",
		Long:    serveHelp,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.every < shortestPoll || f.every > longestPoll {
				return badUsage("--every %v: it must be from %v to %v", f.every, shortestPoll, longestPoll)
			}
			return arguments(0, 1, "at most one PREFIX")(cmd, args)
		},
	}
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:7290", "`address` to listen on")
	durationVar(cmd.Flags(), &f.every, "every", 5*time.Second, "how old holders and waiters may be, and how often the page reloads")
	cmd.Flags().BoolVar(&f.allowBreak, "allow-break", false, "offer to break locks to a client that has the token")
	cmd.Flags().StringVar(&f.tokenFile, "break-token-file", variable(envBreakTokenFile), "`file` with the token, if it is not in $"+envBreakToken+" ($"+envBreakTokenFile+")")
	cmd.Flags().Lookup("break-token-file").DefValue = "" // no value of the environment is in the help
	cmd.RunE = s.watching(f.run)
	return cmd
}

func (f *serveFlags) run(cmd *cobra.Command, session *signalbox.Session, args []string) error {
	ctx, prefix := cmd.Context(), strings.Join(args, "")
	dropSignals() // it opens no log anew, and ends at none of them
	secret, err := f.breakToken(ctx)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return &exitError{listenCode(err), err}
	}
	site := newSite(session, inspecthttp.Options{Prefix: prefix, Every: f.every}, secret, func(err error) {
		if ctx.Err() == nil { // else the list has ended
			f.server.reportCall("serve", err)
		}
	})
	site.loopback = isLoopback(listener.Addr().String())
	_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "signalbox: serving http://%s/\n", listener.Addr())
	return serveUntil(ctx, listener, site.handler())
}

// listenCode returns the exit code for an address that cannot be listened on: it is not valid, or the system refuses it, as
// one that is in use.
func listenCode(err error) int {
	if system := new(os.SyscallError); errors.As(err, &system) {
		return codeFailed
	}
	return codeUsage
}

// breakToken returns a function for the token that breaking takes now, nil if nothing can be broken.
func (f *serveFlags) breakToken(ctx context.Context) (func() string, error) {
	if !f.allowBreak {
		return nil, nil //nolint:nilnil // no token is no error
	}
	if f.tokenFile != "" {
		file := f.server.file("break token file", f.tokenFile)
		file.least = shortestToken
		_, err := file.read(ctx)
		return func() string { //nolint:contextcheck // a pipe was read before
			token, _ := file.read(context.Background()) // after a first good one there is no error
			return token
		}, err
	}
	token := variable(envBreakToken)
	if len(token) < shortestToken {
		return nil, badUsage("--allow-break needs a token of %d characters or more, in $%s or --break-token-file", shortestToken, envBreakToken)
	}
	return func() string { return token }, nil
}

// serveUntil serves until ctx ends, and then waits a moment for the requests under way.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	web := &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: largestHeader, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(os.Stderr, nil), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }() // ends with Shutdown or Close
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := web.Shutdown(last); err != nil {
		_ = web.Close() // the requests that are left are cut off
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// isLoopback reports whether a host, with or without a port, is this one.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// site is what serve serves: the pages of inspecthttp, and metrics.
type site struct {
	pages    http.Handler
	snapshot func(ctx context.Context) inspect.Snapshot // returns the list that the pages and the metrics share
	loopback bool
}

// newSite returns the site of a session. secret returns the token that breaking requires; it is nil if nothing can be broken.
func newSite(session *signalbox.Session, options inspecthttp.Options, secret func() string, report func(error)) *site {
	if secret != nil {
		options.AskToken, options.AuthorizeBreak = true, allowWith(secret)
	}
	pages := inspecthttp.New(session, options)
	return &site{pages: pages, snapshot: func(ctx context.Context) inspect.Snapshot {
		now := pages.Snapshot(ctx)
		report(now.Err)
		return now
	}}
}

var errWrongToken = errors.New("the token is wrong: nothing was broken")

// allowWith lets a client break names that sends the token. It is in the form and in no cookie, so a page of another site cannot
// send it.
func allowWith(secret func() string) func(*http.Request, inspect.Entry) error {
	return func(r *http.Request, _ inspect.Entry) error {
		sent, want := sha256.Sum256([]byte(r.PostFormValue("token"))), sha256.Sum256([]byte(secret()))
		if subtle.ConstantTimeCompare(sent[:], want[:]) != 1 {
			return errWrongToken
		}
		return nil
	}
}

// handler returns all that is served. On loopback it refuses other hosts: a name of another site may resolve to this address, and
// its pages would read this one.
func (s *site) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics{s.snapshot})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10}))
	mux.Handle("GET /{$}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.snapshot(r.Context()) // says on stderr why it fails; the page shows the same list
		s.pages.ServeHTTP(w, r)
	}))
	mux.Handle("/", s.pages)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.loopback && !isLoopback(r.Host) {
			http.Error(w, "this server listens on loopback and serves no other host", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// metrics collects what a list says, by kind: names would be labels without a bound. Groups of shards have metrics of their own,
// since they are few, and each shard without an owner matters.
type metrics struct {
	snapshot func(ctx context.Context) inspect.Snapshot
}

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("signalbox_"+name, help, labels, nil)
}

//nolint:gochecknoglobals // a constant table
var (
	metricUp       = describeMetric("up", "1 if the server replies and denies nothing, else 0. See list_age_seconds for names that are new.")
	metricAge      = describeMetric("list_age_seconds", "Every name that has been in use for longer is in the list.")
	metricDuration = describeMetric("list_duration_seconds", "How long the last round through all keys of the server lasted; 0 before the first has ended.")
	metricExamined = describeMetric("list_examined_keys", "How many keys of the server the round under way has examined, about.")
	metricKeys     = describeMetric("list_keys", "How many keys a round examines, about; 0 if it is not known.")
	metricMore     = describeMetric("list_more_names", "How many names in use are not in the list, since there are too many.")
	metricNames    = describeMetric("names", "How many names are in use.", "kind")
	metricHolders  = describeMetric("holders", "How many holds there are. A name with more than 1000 counts as 1000.", "kind")
	metricWaiters  = describeMetric("waiters", "How many tickets wait.", "kind")
	metricGroup    = describeMetric("shards", "How many shards a group has.", "group")
	metricMembers  = describeMetric("shards_members", "How many members a group of shards has.", "group")
	metricUnowned  = describeMetric("shards_unowned", "How many shards of a group have no owner.", "group")
	metricDraining = describeMetric("shards_draining", "How many shards of a group their owner was asked for, and has still.", "group")
	metricFree     = describeMetric("shards_unowned_seconds", "How long the first unowned shard of a group has had no owner, by the clock of this host; 0 if all have one.", "group")
	metricDrain    = describeMetric("shards_draining_seconds", "How long ago the first draining shard of a group was asked for, by the clock of this host; 0 if none drains.", "group")
	metricLongest  = describeMetric("longest_wait_seconds", "How long the first ticket of a queue has waited, by the clock of this host.", "kind")
)

// Describe implements prometheus.Collector.
func (*metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		metricUp, metricAge, metricDuration, metricExamined, metricKeys, metricMore, metricNames, metricHolders, metricWaiters, metricLongest,
		metricGroup, metricMembers, metricUnowned, metricDraining, metricFree, metricDrain,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	now := m.snapshot(context.Background())
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	up := 1.0
	if now.Err != nil {
		up = 0
	}
	gauge(metricUp, up)
	gauge(metricAge, now.Age.Seconds())
	gauge(metricDuration, now.Took.Seconds())
	gauge(metricExamined, float64(now.Examined))
	gauge(metricKeys, float64(now.Keys))
	gauge(metricMore, float64(now.More))
	if now.Err != nil && len(now.Entries) == 0 {
		return // not known is not 0
	}
	for kind, t := range totals(now) {
		gauge(metricNames, float64(t.names), kind)
		gauge(metricHolders, float64(t.holders), kind)
		gauge(metricWaiters, float64(t.waiters), kind)
		gauge(metricLongest, t.longest.Seconds(), kind)
	}
	for _, e := range groups(now.Entries) {
		gauge(metricGroup, float64(e.Shards), e.Name)
		gauge(metricMembers, float64(e.HolderCount), e.Name)
		gauge(metricUnowned, float64(e.Unowned), e.Name)
		gauge(metricDraining, float64(e.Draining), e.Name)
		gauge(metricFree, secondsSince(now.At, e.UnownedSince), e.Name)
		gauge(metricDrain, secondsSince(now.At, e.DrainingSince), e.Name)
	}
}

// maxGroups is how many groups of shards have metrics of their own: a group is a label.
const maxGroups = 100

// groups returns the groups of shards, the first of them if there are many. A label is UTF-8, and there is one of each.
func groups(entries []inspect.Entry) (all []inspect.Entry) {
	for _, e := range entries {
		isOther := len(all) == 0 || all[len(all)-1].Name != e.Name // a digest may look like a name
		if e.Shards > 0 && utf8.ValidString(e.Name) && isOther && len(all) < maxGroups {
			all = append(all, e)
		}
	}
	return all
}

// secondsSince returns for how long something is so; 0 for the zero time.
func secondsSince(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0).Seconds()
}

// kindTotals is the sum of the entries of a kind.
type kindTotals struct {
	names, holders, waiters int
	longest                 time.Duration
}

func totals(now inspect.Snapshot) map[string]kindTotals {
	all := make(map[string]kindTotals)
	for _, kind := range inspect.Kinds() {
		all[kind] = kindTotals{} // a kind has a metric even if there are no names
	}
	for _, e := range now.Entries {
		t := all[e.Kind]
		t.names, t.holders, t.waiters = t.names+1, t.holders+e.HolderCount, t.waiters+e.WaiterCount
		if len(e.Waiters) > 0 && !e.Waiters[0].Since.IsZero() {
			t.longest = max(t.longest, now.At.Sub(e.Waiters[0].Since))
		}
		all[e.Kind] = t
	}
	return all
}
