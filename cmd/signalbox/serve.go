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

// serveFlags are the flags of serve.
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
