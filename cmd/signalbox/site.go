// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
)

// site is what serve serves.
type site struct {
	list     *snapshot
	reload   time.Duration
	secret   string // what breaking takes; "" if nothing can be broken
	loopback bool
	take     func(ctx context.Context, name, kind string) error
}

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle []byte

//nolint:gochecknoglobals // read from the embedded file once
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"shown": shown, "held": held, "moment": moment, "token": token, "breakable": breakable,
}).Parse(pageText))

// mostRows is how many entries a page has.
const mostRows = 1000

// handler returns all pages.
func (s *site) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics{s.list})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /page.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(pageStyle) // the reader may be gone
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10}))
	if s.secret != "" {
		mux.HandleFunc("GET /break", s.form)
		mux.Handle("POST /break", http.MaxBytesHandler(http.HandlerFunc(s.breakName), largestForm))
	}
	return s.guard(http.NewCrossOriginProtection().Handler(mux))
}

// guard sets the headers of every page. On loopback it refuses other hosts: a name of another site may resolve to this
// address, and its pages would read this one.
func (s *site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if s.loopback && !isLoopback(r.Host) {
			http.Error(w, "this server listens on loopback and serves no other host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listPage is what the list shows.
type listPage struct {
	Prefix   string
	Entries  []inspect.Entry
	More     int // entries that are not shown
	Error    string
	At       time.Time
	Reload   int // seconds
	CanBreak bool
	Note     string // how late the list is, if that is worth a line

	Names, Holders, Waiters int
}

func (s *site) index(w http.ResponseWriter, r *http.Request) {
	now := s.list.now(r.Context())
	page := listPage{
		Prefix: r.FormValue("prefix"), At: now.at, Reload: max(int(math.Ceil(s.reload.Seconds())), 1), CanBreak: s.secret != "",
	}
	for _, e := range now.entries {
		if !strings.HasPrefix(e.Name, page.Prefix) {
			continue
		}
		page.Names, page.Holders, page.Waiters = page.Names+1, page.Holders+e.HolderCount, page.Waiters+e.WaiterCount
		if len(page.Entries) < mostRows {
			page.Entries = append(page.Entries, e)
		}
	}
	page.More = page.Names - len(page.Entries) + now.More
	page.Note = note(now.Snapshot)
	status := http.StatusOK
	if now.err != nil {
		page.Error, status = oneLine(now.err), http.StatusServiceUnavailable
		if len(now.entries) > 0 {
			status = http.StatusOK // a node is away
		}
	}
	render(w, status, "list", page)
}

// formPage is what the form for breaking a name shows. A name is known by its key, which survives a form: it has no
// control characters.
type formPage struct {
	Key, Kind    string
	Entry        *inspect.Entry // nil if the list does not have it
	Done, Failed string
}

func (s *site) form(w http.ResponseWriter, r *http.Request) {
	page := formPage{Key: r.FormValue("key"), Kind: r.FormValue("kind")}
	page.Entry = s.find(r.Context(), page.Key, page.Kind)
	render(w, http.StatusOK, "break", page)
}

// find returns the entry that can be broken, or nil.
func (s *site) find(ctx context.Context, key, kind string) *inspect.Entry {
	entries := s.list.now(ctx).entries
	i := slices.IndexFunc(entries, func(e inspect.Entry) bool { return e.Key == key && e.Kind == kind && breakable(e) })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

// breakName breaks a name for a client that sends the token. The token is in the form and in no cookie, so a page of another
// site cannot send it; and a request that a browser says comes from another site does not come here.
func (s *site) breakName(w http.ResponseWriter, r *http.Request) {
	page := formPage{Key: r.PostFormValue("key"), Kind: r.PostFormValue("kind")}
	page.Entry = s.find(r.Context(), page.Key, page.Kind)
	sent, want := sha256.Sum256([]byte(r.PostFormValue("token"))), sha256.Sum256([]byte(s.secret))
	status := http.StatusOK
	switch {
	case subtle.ConstantTimeCompare(sent[:], want[:]) != 1:
		page.Failed, status = "The token is wrong. Nothing was broken.", http.StatusForbidden
	case page.Entry == nil:
		page.Failed, status = "The list does not have it any more. Nothing was broken.", http.StatusConflict
	default:
		ctx, cancel := context.WithTimeout(r.Context(), pollPatience)
		defer cancel()
		err := s.take(ctx, page.Entry.Name, page.Kind)
		s.list.forget()
		switch {
		case err == nil:
			page.Done = "It was broken."
		case errors.Is(err, signalbox.ErrNotHeld):
			page.Failed, status = "No process holds it any more.", http.StatusConflict
		default:
			page.Failed, status = oneLine(err), http.StatusBadGateway
		}
	}
	render(w, status, "break", page)
}

// breakable reports whether Break can end what an entry shows.
func breakable(e inspect.Entry) bool {
	return !e.Hashed && !e.Raw && (e.HolderCount > 0 || e.Kind == inspect.Countdown)
}

func render(w http.ResponseWriter, status int, name string, data any) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		http.Error(w, "the page cannot be made", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = text.WriteTo(w) // the reader may be gone
}
