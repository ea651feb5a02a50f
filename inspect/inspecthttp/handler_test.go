// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// strange is a name that would do harm if it were not escaped.
const strange = `<script>alert("x")</script>` + "\x1b[2J\n"

// served is a handler of a session, and the session.
type served struct {
	*Handler

	t       *testing.T
	session *signalbox.Session
	server  *redistest.Server
}

func serve(t *testing.T, server *redistest.Server, options Options) served {
	s := locktest.SteadySession(t, server)
	options.Every = 100 * time.Millisecond
	return served{New(s, options), t, s, server}
}

// holds lets the session hold a name until the test ends.
func (s served) holds(name string) signalbox.Lease {
	lease := locktest.Must(s.t, reentrant.New(s.session, name).Lock)
	s.t.Cleanup(func() { _ = lease.Unlock() })
	return lease
}

// lists waits until the list has n names.
func (s served) lists(n int) {
	redistest.Await(s.t, fmt.Sprint(n, " names"), func() bool { return len(s.Snapshot(locktest.Context(s.t)).Entries) == n })
}

// get returns the reply to a request that a browser sends.
func (s served) get(target string, headers ...string) *httptest.ResponseRecorder {
	return s.send(httptest.NewRequest("GET", target, nil), headers...)
}

func (s served) post(form url.Values, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/break", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(r, headers...)
}

func (s served) send(r *http.Request, headers ...string) *httptest.ResponseRecorder {
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

var hidden = regexp.MustCompile(`name="(\w+)" value="([^"]*)"`)

// formOf returns the fields of the form that breaks the first name of the list.
func (s served) formOf() url.Values {
	e := s.Snapshot(locktest.Context(s.t)).Entries[0]
	w := s.get("/break?" + url.Values{"key": {e.Key}, "kind": {e.Kind}}.Encode())
	require.Equal(s.t, http.StatusOK, w.Code)
	form := url.Values{}
	for _, field := range hidden.FindAllStringSubmatch(w.Body.String(), -1) {
		form.Add(field[1], html.UnescapeString(field[2]))
	}
	return form
}

func TestPagesEscapeAndSetHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{})
	s.holds(strange)
	s.holds("order/1")
	s.holds("order/2")
	s.lists(3)
	w := s.get("/")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), "3 names, 3 holders, 0 waiters")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, []string{"nosniff", "no-store", "Accept"}, []string{w.Header().Get("X-Content-Type-Options"), w.Header().Get("Cache-Control"), w.Header().Get("Vary")})
	for _, target := range []string{"/", "/?prefix=%22%3E%3Cscript%3E", "/name?name=" + url.QueryEscape(strange), "/name?name=%3Cscript%3E", "/sessions"} {
		text := s.get(target).Body.String()
		require.NotContains(t, strings.ReplaceAll(text, `<script defer src="page.js"`, ""), "<script", target)
		require.NotContains(t, text, "\x1b", target)
		require.NotRegexp(t, `(href|src|action)="/`, text, "links are relative, so that any prefix will do")
		require.NotContains(t, text, "Break<")
	}
	require.Contains(t, s.get("/?prefix=order/").Body.String(), "2 names")
	require.Contains(t, s.get("/name?name=order/1").Body.String(), "<h2>reentrant: ")
	require.Equal(t, http.StatusNotFound, s.get("/name?name=order/3").Code)
	require.Equal(t, http.StatusBadRequest, s.get("/name").Code)
	require.Equal(t, http.StatusNotFound, s.get("/other").Code)
	require.Equal(t, http.StatusMethodNotAllowed, s.send(httptest.NewRequest("POST", "/", nil)).Code)
	require.Contains(t, s.get("/page.css").Header().Get("Content-Type"), "text/css")
	require.Contains(t, s.get("/page.js").Header().Get("Content-Type"), "text/javascript")
}

// Whatever the prefix under which it is mounted, with and without its slash.
func TestPagesAreServedUnderAnyPrefix(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{})
	for _, strip := range []string{"/admin/locks", "/admin/locks/"} {
		mux := http.NewServeMux()
		mux.Handle("/admin/locks/", http.StripPrefix(strip, s))
		for _, target := range []string{"/admin/locks/", "/admin/locks/sessions", "/admin/locks/page.css"} {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
			require.Equal(t, http.StatusOK, w.Code, "%s behind %s", target, strip)
		}
	}
	// A router that leaves paths as they are: no redirect and no link leads out of the prefix.
	behind := func(strip, target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		http.StripPrefix(strip, s).ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		return w
	}
	bare := func(target string) *httptest.ResponseRecorder { return behind("/admin/locks", target) }
	for _, strip := range []string{"/admin/locks", "/admin/locks/"} {
		for _, end := range []string{"name/", "name//", "/sessions//", "name%2f", "%2f/x/", "..//", "x%2f%2f"} {
			w := behind(strip, "/admin/locks/"+end)
			require.Empty(t, w.Header().Get("Location"), "%s behind %s", end, strip)
		}
	}
	w := bare("/admin/locks?prefix=a%20b")
	require.Equal(t, http.StatusTemporaryRedirect, w.Code)
	require.Equal(t, "./locks/?prefix=a%20b", w.Header().Get("Location"))
	require.Equal(t, http.StatusOK, bare("/admin/locks//sessions").Code)
	require.Equal(t, http.StatusNotFound, bare("/admin/locks/sessions/").Code)
	require.Equal(t, http.StatusNotFound, bare("/admin/locks/../x").Code)
}

// What a reader sends beside the address is not read: a form of files would fill the disk.
func TestReadersSendNoBody(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
	for _, target := range []string{"/", "/name?name=x", "/sessions", "/break?key=x"} {
		body := strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n" + strings.Repeat("x", 1<<20))
		before := body.Len()
		s.send(httptest.NewRequest("GET", target, body), "Content-Type", "multipart/form-data; boundary=b")
		require.Equal(t, before, body.Len(), target)
	}
}

// Fetch says with which Origin a browser sends the form of a page; without TLS it sends no Sec-Fetch-Site.
func TestABrowserWithoutTLSSendsTheForm(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
	lease := s.holds("a")
	s.lists(1)
	origin := "http://example.com" // the host of httptest
	if s.get("/").Header().Get("Referrer-Policy") == "no-referrer" {
		origin = "null"
	}
	require.Equal(t, http.StatusOK, s.post(s.formOf(), "Origin", origin).Code)
	redistest.Receive(t, "the loss", lease.Done())
}

// A browser changes control characters in a form, which a key of a layout of others may have: then there is none.
func TestNoFormForAKeyThatFormsChange(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
	for _, name := range []string{"a\nb", "a\xffb", "ab"} {
		lease := locktest.Must(t, reentrant.New(s.session, name, signalbox.WithLayout(redisson.Layout())).Lock)
		t.Cleanup(func() { _ = lease.Unlock() })
	}
	others := signalbox.NewSession(s.server.Client(t, nil), signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	t.Cleanup(func() { _ = others.Close(locktest.Ended()) })
	s.Handler = New(others, s.options)
	s.lists(3)
	require.Equal(t, 1, strings.Count(s.get("/").Body.String(), ">Break</a>"))
}

func TestJSONHasWhatThePagesShow(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{})
	s.holds(strange)
	s.lists(1)
	w := s.get("/", "Accept", "application/json")
	require.Contains(t, w.Header().Get("Content-Type"), "application/json")
	var list struct {
		Names   []inspect.Entry `json:"names"`
		Holders int             `json:"holder_count"`
		At      time.Time       `json:"at"`
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &list))
	require.Equal(t, []any{strange, 1, 1}, []any{list.Names[0].Name, list.Holders, len(list.Names)})
	require.False(t, list.At.IsZero())
	for target, field := range map[string]string{"/name?name=" + url.QueryEscape(strange): `"uses":[{`, "/sessions": `"sessions":[]`, "/name?name=x": `"uses":[]`} {
		require.Contains(t, s.get(target, "Accept", "application/json").Body.String(), field)
	}
	require.Contains(t, s.get("/", "Accept", "text/html,application/json").Header().Get("Content-Type"), "text/html", "what a browser sends")
}

// JSON is read on terminals, too: a name draws nothing there, and means the same.
func TestJSONCanBePrinted(t *testing.T) {
	t.Parallel()
	const name = "\u009b2J \u202e \x1b]0;x\x07 \u200b \U000e0041 <b> é 😀"
	s := serve(t, redistest.Start(t), Options{})
	s.holds(name)
	s.lists(1)
	for _, target := range []string{"/", "/name?name=" + url.QueryEscape(name)} {
		text := s.get(target, "Accept", "application/json").Body.String()
		for _, r := range strings.TrimSuffix(text, "\n") {
			require.True(t, strconv.IsPrint(r), "%U in %s", r, text)
		}
		var page struct {
			Names []inspect.Entry `json:"names"`
			Uses  []inspect.Entry `json:"uses"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &page))
		require.Equal(t, name, append(page.Names, page.Uses...)[0].Name)
	}
}

func TestListOfManyNamesIsBounded(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{})
	pool := semaphore.New(s.session, "pool", 20)
	for range 15 {
		permit := locktest.Must(t, pool.Permits(1).Lock)
		t.Cleanup(func() { _ = permit.Unlock() })
	}
	for i := range maxRows + 10 {
		s.holds(fmt.Sprint("many/", i))
	}
	s.lists(maxRows + 11)
	text := s.get("/").Body.String()
	require.Equal(t, maxRows, strings.Count(text, "<tr><td data-column"))
	require.Contains(t, text, "And 11 more")
	require.Equal(t, 1, strings.Count(s.get("/name?name=pool").Body.String(), "<tbody>"))
}

// Only what a page has shown can be broken, and only if the service allows it.
func TestNothingIsBrokenThatNoPageHasShown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	none := serve(t, server, Options{})
	require.Equal(t, http.StatusNotFound, none.post(url.Values{}).Code)
	require.Equal(t, http.StatusNotFound, none.get("/break?key=x").Code)

	refusal := errors.New("ask \x1b the owner")
	var asked []inspect.Entry
	s := serve(t, server, Options{AskToken: true, AuthorizeBreak: func(r *http.Request, seen inspect.Entry) error {
		asked = append(asked, seen)
		if r.PostFormValue("token") != "right" {
			return refusal
		}
		return nil
	}})
	lease := s.holds(strange)
	s.lists(1)
	require.Contains(t, s.get("/").Body.String(), ">Break</a>")
	form := s.formOf()
	with := func(name string, values ...string) url.Values {
		changed := maps.Clone(form)
		changed[name] = values
		return changed
	}
	old := formPage{Key: form.Get("key"), Kind: form.Get("kind"), Since: form.Get("since"), Holds: form["hold"]}
	for what, bad := range map[string]url.Values{
		"another key": with("key", locktest.Key("other")), "another kind": with("kind", "fair"), "other holds": with("hold", "x"), "no holds": with("hold"),
		"a hold more": with("hold", form.Get("hold"), "x"), "another time": with("since", "2020-01-01T00:00:00Z"), "no form": with("form"),
		"a forged form": with("form", form.Get("form")+"0"), "an old form": with("form", s.signed(old, time.Now().Add(-formLife-time.Minute))),
		"a form of another key": with("form", New(s.session, Options{}).signed(old, time.Now())),
	} {
		require.Equal(t, http.StatusForbidden, s.post(bad).Code, what)
	}
	require.Equal(t, http.StatusForbidden, s.post(form, "Sec-Fetch-Site", "cross-site").Code)
	require.Equal(t, http.StatusForbidden, s.post(form, "Origin", "http://evil.example").Code)
	require.NotEqual(t, http.StatusOK, s.post(with("more", strings.Repeat("x", 2*largestForm))).Code)
	require.Empty(t, asked)

	w := s.post(form)
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), `ask \x1b the owner`)
	require.Len(t, asked, 1)
	require.Equal(t, []any{strange, form.Get("hold")}, []any{asked[0].Name, asked[0].Holders[0].Hold})
	require.Equal(t, s.session.ID(), asked[0].Holders[0].Session, "AuthorizeBreak decides by whose hold it is")
	require.NoError(t, lease.Err())

	w = s.post(with("token", "right"), "Accept", "application/json")
	require.Equal(t, http.StatusOK, w.Code)
	require.Contains(t, w.Body.String(), `"done":"It was broken."`)
	redistest.Receive(t, "the loss", lease.Done())
	s.lists(0)
	require.Equal(t, http.StatusConflict, s.post(with("token", "right")).Code)

	again := s.holds(strange)
	s.lists(1)
	require.Equal(t, http.StatusConflict, s.post(with("token", "right")).Code, "another holder has it")
	require.NoError(t, again.Err())
}

// What the service's own handlers say of a reply stays.
func TestRepliesKeepTheVaryOfOthers(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Cookie")
	New(nil, Options{}).ServeHTTP(w, httptest.NewRequest("GET", "/page.css", nil))
	require.Equal(t, []string{"Cookie", "Accept"}, w.Header().Values("Vary"))
}

// Without a server it is not known whether the list has a name any more.
func TestAFormSaysThatTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := serve(t, redistest.Start(t), Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
	s.holds("a")
	s.lists(1)
	form := s.formOf()
	s.server.Kill()
	redistest.Await(t, "an empty list", func() bool { return len(s.Snapshot(locktest.Context(t)).Entries) == 0 })
	for _, w := range []*httptest.ResponseRecorder{s.post(form), s.get("/break?" + url.Values{"key": form["key"], "kind": form["kind"]}.Encode())} {
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Contains(t, w.Body.String(), "connection refused")
		require.NotContains(t, w.Body.String(), "list does not have it")
	}
}

// The reply to a form that is too large says so, and not that no page has shown the form.
func TestAFormThatIsTooLargeIsSaidToBe(t *testing.T) {
	t.Parallel()
	s := served{New(nil, Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }}), t, nil, nil}
	large := strings.Repeat("x", 2*largestForm)
	w := s.post(url.Values{"token": {large}})
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Contains(t, w.Body.String(), "4096 bytes")
	parts := "--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\n" + large + "\r\n--b--\r\n"
	w = s.send(httptest.NewRequest("POST", "/break", strings.NewReader(parts)), "Content-Type", "multipart/form-data; boundary=b")
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Equal(t, http.StatusForbidden, s.post(url.Values{"token": {"x"}}).Code)
}

// A handler reads only for a while after a request, and ends with its session.
func TestListEndsWithTheSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := serve(t, server, Options{})
	require.Same(t, s.list, New(s.session, Options{Every: 100 * time.Millisecond}).list, "one list a session")
	s.lists(0)
	s.list.mu.Lock()
	s.list.stopLocked() // as 30 s after the last request
	s.list.mu.Unlock()
	lease := s.holds("a")
	s.lists(1)
	require.NoError(t, lease.Unlock())
	require.NoError(t, s.session.Close(locktest.Context(t)))
	<-s.list.mu.ended
	w := s.get("/")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "closed")
	require.ErrorIs(t, New(s.session, Options{Prefix: "later/"}).Snapshot(t.Context()).Err, signalbox.ErrClosed)

	for _, bad := range []*Handler{nil, new(Handler), New(nil, Options{}), New(locktest.SteadySession(t, server), Options{Every: time.Millisecond})} {
		require.ErrorIs(t, bad.Snapshot(t.Context()).Err, signalbox.ErrBadOption)
		w := httptest.NewRecorder()
		bad.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		require.GreaterOrEqual(t, w.Code, 500)
	}
}
