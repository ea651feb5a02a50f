// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"html/template"
	"math"
	"net/http"
	"net/url"
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
	snapshot  func(ctx context.Context) inspect.Snapshot // returns the list that all requests share, as fresh as the server allows
	expire    func()                                     // makes the next request wait until the names are read anew
	reload    time.Duration
	secret    func() string // returns the token that breaking requires; nil if nothing can be broken
	loopback  bool
	breakSeen func(ctx context.Context, seen inspect.Entry) error
	pages     chan struct{} // has an element for each page that is being written
}

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle []byte

//nolint:gochecknoglobals // read from the embedded file once
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"counted": counted, "shown": shown, "held": held, "moment": moment, "token": token, "breakable": breakable,
}).Parse(pageText))

const (
	// maxRows is how many entries a page has.
	maxRows = 1000
	// maxPages is how many pages are written at once. A page is not kept in memory, but each costs time.
	maxPages = 32
	// pageTimeout is how long a request waits for its turn.
	pageTimeout = 5 * time.Second
)

// handler returns all pages.
func (s *site) handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&metrics{s.snapshot})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.inTurn(s.index))
	mux.HandleFunc("GET /page.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(pageStyle) // the reader may be gone
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 10}))
	if s.secret != nil {
		mux.HandleFunc("GET /break", s.inTurn(s.form))
		mux.Handle("POST /break", http.MaxBytesHandler(s.inTurn(s.breakName), largestForm))
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

// inTurn bounds how many pages are made at once.
func (s *site) inTurn(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patience := time.NewTimer(pageTimeout)
		defer patience.Stop()
		select {
		case s.pages <- struct{}{}:
			defer func() { <-s.pages }()
			page(w, r)
		case <-r.Context().Done(): // no client is left
		case <-patience.C:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many pages are being read: try again", http.StatusServiceUnavailable)
		}
	}
}

// listPage is what the list shows.
type listPage struct {
	Prefix   string
	Open     []string // the keys of the entries whose waiters are shown
	Entries  []*inspect.Entry
	More     int // entries that are not shown
	Error    string
	At       time.Time
	Reload   int // seconds
	CanBreak bool
	Note     string // how late the list is, if that is worth a line

	Names, Holders, Waiters int
}

// IsOpen reports whether the waiters of an entry are shown.
func (p listPage) IsOpen(key string) bool { return slices.Contains(p.Open, key) }

// Toggle returns the page on which an entry is opened or closed. The address says what is open, so that a reload keeps it.
func (p listPage) Toggle(key string) string {
	open := slices.DeleteFunc(slices.Clone(p.Open), func(other string) bool { return other == key })
	if len(open) == len(p.Open) {
		open = append(open[max(len(open)-maxOpen+1, 0):], key)
	}
	query := url.Values{"open": open}
	if p.Prefix != "" {
		query.Set("prefix", p.Prefix)
	}
	return "/?" + query.Encode()
}

// maxOpen bounds the length of an address.
const maxOpen = 8

func (s *site) index(w http.ResponseWriter, r *http.Request) {
	now := s.snapshot(r.Context())
	page := listPage{
		Prefix: r.FormValue("prefix"), Open: r.Form["open"], At: now.At, Reload: max(int(math.Ceil(s.reload.Seconds())), 1), CanBreak: s.secret != nil,
	}
	for i := range now.Entries {
		e := &now.Entries[i]
		if !strings.HasPrefix(e.Name, page.Prefix) {
			continue
		}
		page.Names, page.Holders, page.Waiters = page.Names+1, page.Holders+e.HolderCount, page.Waiters+e.WaiterCount
		if len(page.Entries) < maxRows {
			page.Entries = append(page.Entries, e)
		}
	}
	page.More = page.Names - len(page.Entries) + now.More
	page.Note = note(now)
	status := http.StatusOK
	if now.Err != nil {
		page.Error, status = oneLine(now.Err), http.StatusServiceUnavailable
		if len(now.Entries) > 0 {
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

// Unlisted is how many holders the entry has that it does not list.
func (p formPage) Unlisted() int { return max(p.Entry.HolderCount-len(p.Entry.Holders), 0) }

// Began is the round of a latch that the form is for.
func (p formPage) Began() string { return p.Entry.Since.Format(time.RFC3339Nano) }

func (s *site) form(w http.ResponseWriter, r *http.Request) {
	page := formPage{Key: r.FormValue("key"), Kind: r.FormValue("kind")}
	page.Entry = s.find(r.Context(), page.Key, page.Kind)
	render(w, http.StatusOK, "break", page)
}

// find returns the entry that can be broken, or nil.
func (s *site) find(ctx context.Context, key, kind string) *inspect.Entry {
	entries := s.snapshot(ctx).Entries
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
	sent, want := sha256.Sum256([]byte(r.PostFormValue("token"))), sha256.Sum256([]byte(s.secret()))
	status := http.StatusOK
	switch {
	case subtle.ConstantTimeCompare(sent[:], want[:]) != 1:
		page.Failed, status = "The token is wrong. Nothing was broken.", http.StatusForbidden
	case page.Entry == nil:
		page.Failed, status = "The list does not have it any more. Nothing was broken.", http.StatusConflict
	default:
		ctx, cancel := context.WithTimeout(r.Context(), pollTimeout)
		defer cancel()
		err := s.breakSeen(ctx, seen(*page.Entry, r.PostForm))
		s.expire()
		switch {
		case err == nil:
			page.Done = "It was broken."
		case errors.Is(err, signalbox.ErrNotHeld):
			page.Failed, status = "No process holds it any more.", http.StatusConflict
		case errors.Is(err, signalbox.ErrHeld):
			page.Failed, status = "Another holder has it now. Nothing was broken.", http.StatusConflict
		default:
			page.Failed, status = oneLine(err), http.StatusBadGateway
		}
		page.Entry = nil // the list is an older one
	}
	render(w, status, "break", page)
}

// seen returns the entry with the holds that the form showed. A form of another program, which names none, means those of the
// list.
func seen(e inspect.Entry, form url.Values) inspect.Entry {
	if holds := form["hold"]; len(holds) > 0 {
		e.Holders = make([]inspect.Holder, len(holds))
		for i, hold := range holds {
			e.Holders[i].Hold = hold
		}
	}
	if began, err := time.Parse(time.RFC3339Nano, form.Get("since")); err == nil {
		e.Since = began
	}
	return e
}

// breakable reports whether Break can end what an entry shows.
func breakable(e inspect.Entry) bool {
	return !e.Hashed && !e.Raw && (e.HolderCount > 0 || e.Kind == inspect.Countdown)
}

// render writes a page as it is made: a client that reads slowly keeps no page in memory.
func render(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = templates.ExecuteTemplate(w, name, data) // the reader may be gone
}
