// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"cmp"
	"context"
	"errors"
	"maps"
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

const (
	// maxRows is how many entries a page has.
	maxRows = 1000
	// maxReload is how many seconds a page is shown at most: a browser takes a time of weeks for none.
	maxReload = 3600
)

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
	p := head{Title: title, Reload: min(max(int(math.Ceil(h.options.Every.Seconds())), 1), maxReload), At: now.At, Note: words.Lateness(now)}
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

// find returns the entry of the list that can be broken, or nil. A name is known by its key, which survives a form. missing is why the
// list may lack the entry: the server is away, for example.
func (h *Handler) find(ctx context.Context, key, kind string) (entry *inspect.Entry, missing error) {
	now := h.Snapshot(ctx)
	i := slices.IndexFunc(now.Entries, func(e inspect.Entry) bool { return e.Key == key && e.Kind == kind && breakable(e) })
	if i < 0 {
		return nil, now.Err
	}
	return &now.Entries[i], nil
}

// breakable reports whether Break can end what an entry shows. In a layout of others a key may have what does not survive a form, and a
// value may be too long to identify a hold.
func breakable(e inspect.Entry) bool {
	if slices.ContainsFunc(e.Holders, func(h inspect.Holder) bool { return h.Hold == "" }) {
		return false
	}
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

// The limits of the trees of a page.
const (
	maxEdges = 10_000
	maxNodes = 1_000
	maxDepth = 20
)

// waitTree is a session, with those that may wait for it.
type waitTree struct {
	Label   string `json:"label"`
	Session string `json:"session"`
	// Name and Kind are what it may wait for; empty at a root, which waits for nothing.
	Name string `json:"name,omitempty"`
	Kind string `json:"kind,omitempty"`
	// Mutual reports that the session above may wait for it, too, directly or through others. Elsewhere reports that the sessions
	// that wait for it stand at its first place on the page.
	Mutual    bool `json:"mutual,omitempty"`
	Elsewhere bool `json:"elsewhere,omitempty"`

	Waiters []*waitTree `json:"waiters,omitempty"`

	above *waitTree
	depth int
}

// wait is one session that may wait for another.
type wait struct{ session, label, name, kind string }

// waitsOf returns who may wait for each session, in the order of the entries, and the labels of the sessions that hold. It reports
// whether all are there: lists are cut.
func waitsOf(entries []inspect.Entry) (waits map[string][]wait, holders map[string]string, complete bool) {
	waits, holders, complete = make(map[string][]wait), make(map[string]string), true
	edges := 0
	for _, e := range entries {
		if e.WaiterCount == 0 {
			continue
		}
		complete = complete && e.HolderCount == len(e.Holders) && e.WaiterCount == len(e.Waiters)
		for _, h := range e.Holders {
			holders[h.Session] = h.Label
			for _, w := range e.Waiters {
				if w.Session == h.Session || !w.Alive || h.Session == "" {
					continue
				}
				if edges++; edges > maxEdges {
					return waits, holders, false
				}
				waits[h.Session] = append(waits[h.Session], wait{w.Session, w.Label, e.Name, e.Kind})
			}
		}
	}
	return waits, holders, complete
}

// treesOf returns the sessions for which others may wait, those first that wait for nothing themselves; and whether some are missing.
func treesOf(entries []inspect.Entry) (trees []*waitTree, incomplete bool) {
	waits, labels, complete := waitsOf(entries)
	waiting := make(map[string]bool)
	for _, all := range waits {
		for _, w := range all {
			waiting[w.session] = true
		}
	}
	byLabel := func(a, b string) int { return cmp.Or(cmp.Compare(labels[a], labels[b]), cmp.Compare(a, b)) }
	sorted := slices.SortedFunc(maps.Keys(waits), byLabel)
	g := grower{waits: waits, grown: make(map[string]bool)}
	trees = []*waitTree{}
	for _, first := range []bool{true, false} { // a cycle has no root if its sessions wait for each other alone
		for _, s := range sorted {
			if first && waiting[s] || g.grown[s] {
				continue
			}
			if g.nodes++; g.nodes > maxNodes {
				return trees, true
			}
			root := &waitTree{Label: labels[s], Session: s}
			trees = append(trees, root)
			g.grow(root)
		}
	}
	return trees, !complete || g.cut
}

// grower makes trees. A session is grown once, where it is met first.
type grower struct {
	waits map[string][]wait
	grown map[string]bool
	nodes int
	cut   bool // something is missing
}

// grow adds to a root the sessions that wait for it. A chain of waits may be long, so it does not call itself.
func (g *grower) grow(root *waitTree) {
	for left := []*waitTree{root}; len(left) > 0; {
		t := left[len(left)-1]
		left = left[:len(left)-1]
		waiters := g.waits[t.Session]
		switch {
		case t.Mutual || len(waiters) == 0:
			continue
		case g.grown[t.Session]:
			t.Elsewhere = true
			continue
		case t.depth == maxDepth:
			g.cut = true
			continue
		}
		g.grown[t.Session] = true
		for _, w := range waiters {
			if g.nodes++; g.nodes > maxNodes {
				g.cut = true
				break
			}
			t.Waiters = append(t.Waiters, &waitTree{
				Label: w.label, Session: w.session, Name: w.name, Kind: w.kind, Mutual: t.isBelow(w.session), above: t, depth: t.depth + 1,
			})
		}
		for _, below := range slices.Backward(t.Waiters) { // the first is grown first
			left = append(left, below)
		}
	}
}

// isBelow reports whether t or one above it is of the session.
func (t *waitTree) isBelow(session string) bool {
	for ; t != nil; t = t.above {
		if t.Session == session {
			return true
		}
	}
	return false
}
