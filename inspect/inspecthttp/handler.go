// SPDX-License-Identifier: Apache-2.0

// Package inspecthttp is an http.Handler that shows the lists of package inspect, as pages and as JSON: the holders and waiters of each
// name, and which sessions may wait for each other.
//
// Use it to show them under a service's own login. Where that is not needed, signalbox serve does
// it without code.
//
//	pages := inspecthttp.New(session, inspecthttp.Options{})
//	mux.Handle("/locks/", requireOperator(http.StripPrefix("/locks", pages)))
//
// The service that mounts it decides who may read: the pages show names, labels, session ids and the values of leaders.
//
// # Pages
//
//	/           the names in use, with ?prefix= those that begin so; 1,000 at most
//	/name       ?name= : all holders and waiters of a name, 1,000 at most of each
//	/sessions   which session may wait for which, as a tree
//	/break      ?key=&kind= : a form that ends the holds of a name by force, if Options.AuthorizeBreak is set
//
// A request whose Accept header prefers application/json to text/html gets the same as JSON: by weight, else by the narrower range, else
// by the first. With JavaScript a page is read again in place, but not while the reader writes in a form. Without JavaScript it reloads
// itself.
//
// # Cost
//
// The handlers of a session with the same Prefix and Every share one inspect.List. It takes at most a tenth of the server's time, for
// any number of readers. It sends nothing 30 s after the last request, and ends with the session. The page of a name also asks the
// server for that name. At most 32 pages are written at once. A further request waits for 5 s and then gets status 503. A client has 30 s
// to read a page, or the WriteTimeout of the http.Server, if that is set.
//
// # Not promised
//
// One moment: holders and waiters are at most Options.Every old, and were not read at once. The tree shows which sessions may wait for
// each other. A session is a process, and one goroutine of it may hold while another one waits. So a cycle of sessions is not always a
// deadlock.
package inspecthttp

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/words"
)

// Options are the settings of a Handler. The zero Options show all names and break none.
type Options struct {
	// Prefix is what the names begin with that are shown.
	Prefix string
	// Every is how old holders and waiters may be, and how often a page is read again. 0 means 5 s. With less than 100 ms each page
	// shows an error.
	Every time.Duration
	// AuthorizeBreak is called before the holds of a name are ended by force, with the request and with the holds that the form had. A
	// Holder that the list does not have any more has only its Hold. If AuthorizeBreak returns an error, nothing is ended, and the page
	// shows its text. If AuthorizeBreak is nil, there are no forms. Several goroutines may call it at once.
	AuthorizeBreak func(r *http.Request, seen inspect.Entry) error
	// AskToken adds a field with the name token to the form. AuthorizeBreak has it as r.PostFormValue("token").
	AskToken bool
	// FormKey signs the forms, so that a request breaks only what a page has shown. A form is valid for ten minutes. If FormKey is
	// empty, the Handler makes a random one. Processes that serve one address need the same key.
	FormKey []byte
}

// Handler serves the pages. New makes one.
type Handler struct {
	options Options
	session *signalbox.Session
	list    *sharedList
	mux     *http.ServeMux
	pages   chan struct{} // has an element for each page that is being written
}

const (
	// defaultEvery is Options.Every if it is 0.
	defaultEvery = 5 * time.Second
	// maxPages is how many pages are written at once. A page is not kept in memory, but each costs time.
	maxPages = 32
	// pageTimeout is how long a request waits for its turn, and for a name that is read.
	pageTimeout = 5 * time.Second
	// writeTimeout is how long the write of a page may take, if the http.Server has no WriteTimeout. Others may wait for its turn.
	writeTimeout = 30 * time.Second
	// largestForm has room for the holds of an entry of the list.
	largestForm = 4 << 10
)

// New returns a Handler that shows what s sees. Errors, such as those of a session that is closed, are shown by the pages.
func New(s *signalbox.Session, options Options) *Handler {
	options.Every = cmp.Or(options.Every, defaultEvery)
	if len(options.FormKey) == 0 {
		options.FormKey = []byte(rand.Text())
	}
	h := &Handler{options: options, session: s, list: listOf(s, options.Prefix, options.Every), mux: http.NewServeMux(), pages: make(chan struct{}, maxPages)}
	h.mux.HandleFunc("GET /{$}", h.inTurn(h.index))
	h.mux.HandleFunc("GET /name", h.inTurn(h.name))
	h.mux.HandleFunc("GET /sessions", h.inTurn(h.sessions))
	h.mux.HandleFunc("GET /page.css", serveFile("text/css", pageStyle))
	h.mux.HandleFunc("GET /page.js", serveFile("text/javascript", pageScript))
	if options.AuthorizeBreak != nil {
		h.mux.HandleFunc("GET /break", h.inTurn(h.form))
		h.mux.Handle("POST /break", http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(withForm(h.inTurn(h.breakName)), largestForm)))
	}
	return h
}

// errNoHandler is the error of a Handler that New has not made.
var errNoHandler = fmt.Errorf("%w: the handler was not made by inspecthttp.New", errs.ErrBadOption)

// Snapshot returns what the pages show at this moment. It waits for entries that are fresh, for two seconds at most, or until ctx ends.
func (h *Handler) Snapshot(ctx context.Context) inspect.Snapshot {
	if h == nil || h.list == nil {
		return inspect.Snapshot{At: time.Now(), Err: errNoHandler}
	}
	return h.list.snapshot(ctx)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h == nil || h.mux == nil {
		http.Error(w, errNoHandler.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin") // with no-referrer a browser sends the form with the Origin null
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", "Accept") // beside what the service's own handlers vary by
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if r.URL.Path == "" && asked != "" && !strings.HasSuffix(asked, "/") { // /locks: the links would lead out of the prefix
		header.Set("Location", "./"+path.Base(asked)+"/?"+r.URL.RawQuery)
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	// As the mux would redirect to, but without a redirect, which would lead out of the prefix. Behind http.StripPrefix("/locks/", h)
	// the path does not begin with a slash. Escapes say nothing here: no page has a path with one.
	clean := path.Clean("/" + r.URL.Path)
	if clean != "/" && strings.HasSuffix(r.URL.Path, "/") {
		clean += "/" // where no page is
	}
	if clean != r.URL.Path || r.URL.RawPath != "" {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = clean, ""
	}
	h.mux.ServeHTTP(w, r)
}

// withForm reads the form before the request has a turn: a client may send it as slowly as the service allows.
func withForm(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := r.ParseForm()
		if err == nil {
			err = r.ParseMultipartForm(largestForm) // a form in parts
		}
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("the form has more than %d bytes: nothing was broken", tooLarge.Limit), http.StatusRequestEntityTooLarge)
			return
		}
		page(w, r) // any other form that cannot be read has no valid signature
	}
}

// inTurn bounds how many pages are made at once.
func (h *Handler) inTurn(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patience := time.NewTimer(pageTimeout)
		defer patience.Stop()
		select {
		case h.pages <- struct{}{}:
			defer func() { <-h.pages }()
			defer setWriteDeadline(w, r)()
			page(w, r)
		case <-r.Context().Done(): // no client is left
		case <-patience.C:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "too many pages are being read: try again", http.StatusServiceUnavailable)
		}
	}
}

// setWriteDeadline lets a client that reads a page too slowly lose its connection, and with it the turn. It returns what clears it: the
// connection may serve other requests. A server that has a limit of its own sets it for each of them, and keeps it.
func setWriteDeadline(w http.ResponseWriter, r *http.Request) (reset func()) {
	if server, _ := r.Context().Value(http.ServerContextKey).(*http.Server); server == nil || server.WriteTimeout > 0 {
		return func() {}
	}
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // the service's ResponseWriter may have none
	return func() { _ = conn.SetWriteDeadline(time.Time{}) }
}

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle []byte
	//go:embed page.js
	pageScript []byte
)

//nolint:gochecknoglobals // read from the embedded file once
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"counted": words.Counted, "shown": words.Shown, "held": words.Held, "moment": words.Moment, "token": words.Token, "breakable": breakable,
}).Parse(pageText))

func serveFile(kind string, text []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind+"; charset=utf-8")
		_, _ = w.Write(text) // the reader may be gone
	}
}

// reply writes a page as it is made, so that a client that reads slowly keeps no page in memory; or, if the request asks for it,
// data as JSON.
func reply(w http.ResponseWriter, r *http.Request, status int, page string, data any) {
	if prefersJSON(r.Header["Accept"]) {
		w.Header().Set("Content-Type", jsonType+"; charset=utf-8")
		w.WriteHeader(status)
		_ = json.NewEncoder(words.PrintableJSON(w)).Encode(data) // the reader may be gone
		return
	}
	w.Header().Set("Content-Type", htmlType+"; charset=utf-8")
	w.WriteHeader(status)
	_ = templates.ExecuteTemplate(w, page, data) // the reader may be gone
}

// sessionOf returns the inside of a session, or nil if it was not made by Dial or New.
func sessionOf(s *signalbox.Session) *session.Session {
	inside := (*session.Handle)(s).Session()
	if inside.Valid() != nil {
		return nil
	}
	return inside
}
