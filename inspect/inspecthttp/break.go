// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/words"
)

// formLife is how long a form can be sent after it was shown.
const formLife = 10 * time.Minute

// formPage is what the form for breaking a name shows, and what its fields have.
type formPage struct {
	head

	Key      string         `json:"key"`
	Kind     string         `json:"kind"`
	Entry    *inspect.Entry `json:"seen,omitempty"` // nil if the list does not have it
	Holds    []string       `json:"hold"`
	Since    string         `json:"since"`
	Form     string         `json:"form,omitempty"` // shows that a page had these fields
	AskToken bool           `json:"-"`
	Done     string         `json:"done,omitempty"`
}

// Unlisted is how many holders the entry has that it does not list.
func (p formPage) Unlisted() int { return max(p.Entry.HolderCount-len(p.Entry.Holders), 0) }

func (h *Handler) form(w http.ResponseWriter, r *http.Request) {
	page := formPage{head: head{At: time.Now(), Title: "break"}, Key: r.URL.Query().Get("key"), Kind: r.URL.Query().Get("kind"), Holds: []string{}, AskToken: h.options.AskToken}
	status := http.StatusNotFound
	entry, missing := h.find(r.Context(), page.Key, page.Kind)
	switch {
	case missing != nil:
		status, page.Error = http.StatusServiceUnavailable, words.OneLine(missing)
	case entry != nil:
		status, page.Entry, page.Since = http.StatusOK, entry, entry.Since.Format(time.RFC3339Nano)
		for _, holder := range entry.Holders {
			page.Holds = append(page.Holds, holder.Hold)
		}
		page.Form = h.signed(page, time.Now())
	}
	reply(w, r, status, "break", page)
}

// signed returns what shows that a page had the fields of p at a time.
func (h *Handler) signed(p formPage, at time.Time) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, h.options.FormKey)
	for _, field := range append([]string{seconds, p.Key, p.Kind, p.Since}, p.Holds...) {
		_, _ = fmt.Fprintf(mac, "%d:%s", len(field), field) // no two lists of fields are written alike
	}
	return seconds + "." + hex.EncodeToString(mac.Sum(nil))
}

// wasShown reports whether a page had the fields of p within the last formLife.
func (h *Handler) wasShown(p formPage) bool {
	text, _, _ := strings.Cut(p.Form, ".")
	seconds, err := strconv.ParseInt(text, 10, 64)
	at := time.Unix(seconds, 0)
	return err == nil && time.Since(at) <= formLife && hmac.Equal([]byte(p.Form), []byte(h.signed(p, at)))
}

// breakName ends by force what a form showed. A browser says if the request comes from a page of another site; then it does not come
// here, and such a page has no form that was signed.
func (h *Handler) breakName(w http.ResponseWriter, r *http.Request) {
	page := formPage{head: head{At: time.Now(), Title: "break"}, Key: r.PostFormValue("key"), Kind: r.PostFormValue("kind"), Since: r.PostFormValue("since"), Form: r.PostFormValue("form")}
	page.Holds = r.PostForm["hold"]
	var status int
	page.Done, status, page.Error = h.tryBreak(r, page)
	page.Form = ""
	reply(w, r, status, "break", page)
}

// tryBreak ends by force what a form showed, and returns what to say about it.
func (h *Handler) tryBreak(r *http.Request, page formPage) (done string, status int, failure string) {
	if !h.wasShown(page) {
		return "", http.StatusForbidden, "The form is old, or no page has shown it. Nothing was broken: open it again."
	}
	entry, missing := h.find(r.Context(), page.Key, page.Kind)
	switch {
	case missing != nil:
		return "", http.StatusServiceUnavailable, "Nothing was broken: " + words.OneLine(missing)
	case entry == nil:
		return "", http.StatusConflict, "The list does not have it any more. Nothing was broken."
	}
	seen := *entry
	seen.Holders = nil
	for _, hold := range page.Holds {
		holder := inspect.Holder{Hold: hold}
		if i := slices.IndexFunc(entry.Holders, func(now inspect.Holder) bool { return now.Hold == hold }); i >= 0 {
			holder = entry.Holders[i]
		}
		seen.Holders = append(seen.Holders, holder)
	}
	seen.Since, _ = time.Parse(time.RFC3339Nano, page.Since) // it was signed
	if err := h.options.AuthorizeBreak(r, seen); err != nil {
		return "", http.StatusForbidden, words.Printable(err.Error())
	}
	ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
	defer cancel()
	err := inspect.BreakSeen(ctx, h.session, seen)
	h.list.list.Invalidate()
	switch {
	case err == nil:
		return "It was broken.", http.StatusOK, ""
	case errors.Is(err, signalbox.ErrNotHeld):
		return "", http.StatusConflict, "No process holds it any more."
	case errors.Is(err, signalbox.ErrHeld):
		return "", http.StatusConflict, "Another holder has it now. Nothing was broken."
	}
	return "", http.StatusBadGateway, words.OneLine(err)
}
