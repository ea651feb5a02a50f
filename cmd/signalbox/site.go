// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/inspect/inspecthttp"
)

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
