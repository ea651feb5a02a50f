// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/inspect"
)

const testToken = "0123456789abcdef"

// strange is a name that would do harm if it were not escaped.
const strange = `<script>alert("x")</script>` + "\x1b[2J\n"

// testSite is a site with these entries, or an error, that counts what it does.
type testSite struct {
	site

	entries       []inspect.Entry
	err           error
	reads         atomic.Int32
	expired       atomic.Int32
	brokenEntries []string
	refusal       error // the error of the next break
}

func newTestSite(entries ...inspect.Entry) *testSite {
	s := &testSite{entries: entries}
	s.snapshot = func(context.Context) inspect.Snapshot {
		s.reads.Add(1)
		return inspect.Snapshot{Entries: s.entries, Err: s.err, At: time.Now(), Complete: true, Age: 7 * time.Second, Keys: 9}
	}
	s.expire = func() { s.expired.Add(1) }
	s.loopback, s.reload, s.secret = true, 1500*time.Millisecond, func() string { return testToken }
	s.pages = make(chan struct{}, 2)
	s.breakSeen = func(_ context.Context, seen inspect.Entry) error {
		s.brokenEntries = append(s.brokenEntries, seen.Name+" "+seen.Kind+" "+seen.Holders[0].Hold)
		return s.refusal
	}
	return s
}

// entry is an entry that is held, with a waiter.
func entry(name string) inspect.Entry {
	return inspect.Entry{
		Name: name, Key: "key of " + fmt.Sprintf("%x", name), Kind: inspect.Reentrant, Token: 7, Since: time.Unix(1, 0), HolderCount: 1,
		Holders: []inspect.Holder{{Label: name, Hold: "hold"}}, Waiters: []inspect.Waiter{{Label: name, Alive: true, Since: time.Now().Add(-time.Minute)}}, WaiterCount: 1,
	}
}

// request sends a request to the site.
func (s *testSite) request(method, target string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost:7290"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

func TestPageEscapesAndSetsHeaders(t *testing.T) {
	t.Parallel()
	s := newTestSite(entry(strange), entry("order/1"), entry("order/2"))
	w := s.request("GET", "/", nil)
	require.Equal(t, http.StatusOK, w.Code)
	text := w.Body.String()
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, "\x1b")
	require.Contains(t, text, `content="2"`)
	require.Contains(t, text, "3 names, 3 holders, 3 waiters")
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))

	text = s.request("GET", "/?prefix=order/", nil).Body.String()
	require.Contains(t, text, "2 names")
	text = s.request("GET", "/?prefix=%22%3E%3Cscript%3E", nil).Body.String()
	require.NotContains(t, text, "<script")
	require.Equal(t, http.StatusNotFound, s.request("GET", "/other", nil).Code)
	require.Equal(t, http.StatusMethodNotAllowed, s.request("POST", "/", url.Values{}).Code)
	require.Contains(t, s.request("GET", "/page.css", nil).Header().Get("Content-Type"), "text/css")
}

func TestPageOfManyNamesIsBounded(t *testing.T) {
	t.Parallel()
	s := newTestSite()
	for i := range 3 * maxRows {
		s.entries = append(s.entries, entry(fmt.Sprint(i)))
	}
	text := s.request("GET", "/", nil).Body.String()
	require.Equal(t, maxRows, strings.Count(text, "<summary>"))
	require.Contains(t, text, fmt.Sprintf("And %d more", 2*maxRows))
}

// The address says what is open, so that a reload keeps it.
func TestReloadKeepsWhatIsOpen(t *testing.T) {
	t.Parallel()
	s := newTestSite(entry("a"), entry("b"))
	closed := s.request("GET", "/?prefix=a", nil).Body.String()
	require.NotContains(t, closed, "<details open>")
	_, rest, _ := strings.Cut(closed, `<summary><a href="`)
	link, _, _ := strings.Cut(rest, `"`)
	open := s.request("GET", html.UnescapeString(link), nil).Body.String()
	require.Contains(t, open, "<details open>")
	require.Contains(t, open, `value="a"`)
	require.Contains(t, open, `<summary><a href="/?prefix=a">`, "the link closes it")
}

// A page that is read slowly is not kept in memory, and a number of them at most is read at once.
func TestPagesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestSite(entry("a"))
		for range cap(s.pages) {
			s.pages <- struct{}{}
		}
		begun := time.Now()
		w := s.request("GET", "/", nil)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, pageTimeout, time.Since(begun))
		require.NotEmpty(t, w.Header().Get("Retry-After"))
		require.Equal(t, http.StatusOK, s.request("GET", "/metrics", nil).Code)
		<-s.pages
		require.Equal(t, http.StatusOK, s.request("GET", "/", nil).Code)
		require.Len(t, s.pages, cap(s.pages)-1, "a page gives its turn back")
	})
}

func TestOtherHostsAreRefusedOnLoopback(t *testing.T) {
	t.Parallel()
	s := newTestSite()
	for host, code := range map[string]int{
		"localhost": 200, "localhost:80": 200, "127.0.0.1:7290": 200, "127.8.8.8": 200, "[::1]:7290": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:7290": 403, "10.0.0.1": 403, "": 403, "localhost.evil.example": 403,
	} {
		w := s.request("GET", "/", nil, func(r *http.Request) { r.Host = host })
		require.Equal(t, code, w.Code, host)
	}
	s.loopback = false
	require.Equal(t, 200, s.request("GET", "/", nil, func(r *http.Request) { r.Host = "locks.example" }).Code)
}

func TestNothingIsBrokenWithoutTheToken(t *testing.T) {
	t.Parallel()
	e := entry(strange)
	right := url.Values{"key": {e.Key}, "kind": {e.Kind}, "token": {testToken}}
	with := func(name, value string) url.Values {
		form := maps.Clone(right)
		form.Set(name, value)
		return form
	}
	s := newTestSite(e)
	s.secret = nil
	require.Equal(t, http.StatusNotFound, s.request("POST", "/break", right).Code)
	require.Equal(t, http.StatusNotFound, s.request("GET", "/break?key=x", nil).Code)
	require.NotContains(t, s.request("GET", "/", nil).Body.String(), "/break")

	s.secret = func() string { return testToken }
	require.Equal(t, http.StatusForbidden, s.request("POST", "/break", with("token", "")).Code)
	require.Equal(t, http.StatusForbidden, s.request("POST", "/break", with("token", testToken+"x")).Code)
	require.Equal(t, http.StatusForbidden, s.request("POST", "/break?token="+testToken, with("token", "")).Code, "a token in a URL ends in logs")
	require.Equal(t, http.StatusConflict, s.request("POST", "/break", with("key", "other")).Code)
	require.Equal(t, http.StatusForbidden, s.request("POST", "/break", right, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).Code)
	require.Equal(t, http.StatusForbidden, s.request("POST", "/break", right, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }).Code)
	require.NotEqual(t, http.StatusOK, s.request("POST", "/break", with("token", strings.Repeat("x", 2*largestForm))).Code)
	require.Equal(t, http.StatusOK, s.request("GET", "/break?key="+url.QueryEscape(e.Key)+"&kind=reentrant&token="+testToken, nil).Code)
	require.Empty(t, s.brokenEntries)

	w := s.request("POST", "/break", right)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, []string{strange + " reentrant hold"}, s.brokenEntries)
	require.NotContains(t, w.Body.String(), "<script")
	require.Equal(t, int32(1), s.expired.Load(), "the list is read anew after a break")
	s.refusal = signalbox.ErrNotHeld
	require.Equal(t, http.StatusConflict, s.request("POST", "/break", right).Code)
	s.refusal = signalbox.ErrHeld
	require.Equal(t, http.StatusConflict, s.request("POST", "/break", with("hold", "seen")).Code)
	require.Equal(t, strange+" reentrant seen", s.brokenEntries[len(s.brokenEntries)-1], "the holds of the form, which may be older than the list")
	require.Contains(t, s.request("GET", "/break?key="+url.QueryEscape(e.Key)+"&kind=reentrant", nil).Body.String(), `name="hold" value="hold"`)
	s.refusal = errors.New("no")
	require.Equal(t, http.StatusBadGateway, s.request("POST", "/break", right).Code)
}

func TestMetricsByKind(t *testing.T) {
	t.Parallel()
	s := newTestSite(entry("a"), entry("b"))
	text := s.request("GET", "/metrics", nil).Body.String()
	for _, line := range []string{
		`signalbox_up 1`, `signalbox_list_age_seconds 7`, `signalbox_list_keys 9`, `signalbox_list_more_names 0`, `signalbox_names{kind="reentrant"} 2`, `signalbox_waiters{kind="reentrant"} 2`, `signalbox_names{kind="fair"} 0`,
		`signalbox_longest_wait_seconds{kind="reentrant"} 60`,
	} {
		require.Contains(t, text, "\n"+line)
	}
	s = newTestSite(inspect.Entry{Name: "a", Kind: inspect.Shards, Shards: 8, HolderCount: 2, Unowned: 3, UnownedSince: time.Now().Add(-time.Hour)})
	text = s.request("GET", "/metrics", nil).Body.String()
	for _, line := range []string{
		`signalbox_shards{group="a"} 8`, `signalbox_shards_members{group="a"} 2`, `signalbox_shards_unowned{group="a"} 3`,
		`signalbox_shards_unowned_seconds{group="a"} 360`, `signalbox_shards_draining_seconds{group="a"} 0`, `signalbox_names{kind="shards"} 1`,
	} {
		require.Contains(t, text, "\n"+line)
	}
	s = newTestSite()
	s.err = errors.New("the server is away\nfor now")
	text = s.request("GET", "/metrics", nil).Body.String()
	require.Contains(t, text, "\nsignalbox_up 0")
	require.NotContains(t, text, "signalbox_names{", "not known is not 0")
	w := s.request("GET", "/", nil)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "signalbox: the server is away for now")
}

func TestPageSaysHowLateTheListIs(t *testing.T) {
	t.Parallel()
	s := newTestSite(entry("a"))
	require.NotContains(t, s.request("GET", "/", nil).Body.String(), "missing")
	for text, now := range map[string]inspect.Snapshot{
		"not all names are found yet: 5 of 20 keys examined":                  {Keys: 20, Examined: 5},
		"names that are new since 2m0s may be missing: 5 of 20 keys examined": {Complete: true, Age: 2 * time.Minute, Keys: 20, Examined: 5},
		"And 3 more.": {Complete: true, More: 3},
	} {
		s.snapshot = func(context.Context) inspect.Snapshot { return now }
		require.Contains(t, s.request("GET", "/", nil).Body.String(), text)
	}
}
