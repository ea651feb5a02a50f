// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

// maxRows is how many entries a page has.
const maxRows = 1000

// head is what every page has.
type head struct {
	Title  string `json:"-"`
	Reload int    `json:"-"` // how often the page is read anew, in seconds; 0 if it is not
	// Error is why something is missing, and Note how late the list is, if that is worth a line.
	Error string    `json:"error,omitempty"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at"`
}

// headOf returns what a page says of a list, and the status of the reply.
func (h *Handler) headOf(now inspect.Snapshot, title string) (head, int) {
	p := head{Title: title, Reload: max(int(math.Ceil(h.options.Every.Seconds())), 1), At: now.At, Note: words.Lateness(now)}
	if now.Err == nil {
		return p, http.StatusOK
	}
	p.Error = words.OneLine(now.Err)
	switch {
	case len(now.Entries) > 0:
		return p, http.StatusOK // a node is away
	case errors.Is(now.Err, signalbox.ErrBadName):
		return p, http.StatusBadRequest
	}
	return p, http.StatusServiceUnavailable
}

// listPage is what the list shows.
type listPage struct {
	head

	Prefix   string           `json:"prefix"`
	Entries  []*inspect.Entry `json:"names"`
	More     int              `json:"more"` // entries that are not shown
	CanBreak bool             `json:"-"`

	Names   int `json:"name_count"`
	Holders int `json:"holder_count"`
	Waiters int `json:"waiter_count"`
}

func (h *Handler) index(w http.ResponseWriter, r *http.Request) {
	now := h.Snapshot(r.Context())
	page := listPage{Prefix: r.URL.Query().Get("prefix"), Entries: []*inspect.Entry{}, CanBreak: h.options.AuthorizeBreak != nil}
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
	var status int
	page.head, status = h.headOf(now, words.Counted(page.Names, "name"))
	reply(w, r, status, "list", page)
}

// namePage is what is known of a name.
type namePage struct {
	head

	Name    string          `json:"name"`
	Entries []inspect.Entry `json:"uses"`
}

func (h *Handler) name(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	page := namePage{Name: r.URL.Query().Get("name"), Entries: []inspect.Entry{}}
	now := inspect.Snapshot{At: time.Now(), Complete: true}
	if strings.HasPrefix(page.Name, h.options.Prefix) { // other names are not shown
		now.Entries, now.Err = inspect.Name(ctx, h.session, page.Name)
	}
	page.Entries = append(page.Entries, now.Entries...)
	var status int
	page.head, status = h.headOf(now, words.Shown(page.Name))
	if now.Err == nil && len(page.Entries) == 0 {
		status = http.StatusNotFound
	}
	reply(w, r, status, "name", page)
}

// sessionsPage is what the tree of sessions shows.
type sessionsPage struct {
	head

	Trees      []*waitTree `json:"sessions"`
	Incomplete bool        `json:"incomplete"`
}

func (h *Handler) sessions(w http.ResponseWriter, r *http.Request) {
	now := h.Snapshot(r.Context())
	var page sessionsPage
	page.Trees, page.Incomplete = treesOf(now.Entries)
	page.Incomplete = page.Incomplete || now.More > 0 || !now.Complete
	var status int
	page.head, status = h.headOf(now, "sessions that wait")
	reply(w, r, status, "sessions", page)
}

// find returns the entry of the list that can be broken, or nil. A name is known by its key, which survives a form.
func (h *Handler) find(ctx context.Context, key, kind string) *inspect.Entry {
	entries := h.Snapshot(ctx).Entries
	i := slices.IndexFunc(entries, func(e inspect.Entry) bool { return e.Key == key && e.Kind == kind && breakable(e) })
	if i < 0 {
		return nil
	}
	return &entries[i]
}

// breakable reports whether Break can end what an entry shows. In a layout of others a key may have what does not survive a form.
func breakable(e inspect.Entry) bool {
	return !e.Hashed && !e.Raw && e.IsHeld() && utf8.ValidString(e.Key) && !strings.ContainsFunc(e.Key, unicode.IsControl)
}

// Link returns the address of the page of a name, beside the present one.
func (listPage) Link(e *inspect.Entry) string {
	if e.Hashed || e.Raw {
		return "" // no name leads to it
	}
	return "name?" + url.Values{"name": {e.Name}}.Encode()
}

// BreakLink returns the address of the form of an entry.
func (listPage) BreakLink(e *inspect.Entry) string {
	return "break?" + url.Values{"key": {e.Key}, "kind": {e.Kind}}.Encode()
}
