// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
)

// strange is a name that would do harm if it were not escaped.
const strange = `<script>alert("x")</script>` + "\x1b[2J\n"

// testSite is a site with a list of its own.
type testSite struct {
	site

	entries []inspect.Entry
	err     error
}

func newTestSite(entries ...inspect.Entry) *testSite {
	s := &testSite{entries: entries}
	s.pages = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	s.snapshot = func(context.Context) inspect.Snapshot {
		return inspect.Snapshot{Entries: s.entries, Err: s.err, At: time.Now(), Complete: true, Age: 7 * time.Second, Keys: 9}
	}
	s.loopback = true
	return s
}

// entry is an entry that is held, with a waiter.
func entry(name string) inspect.Entry {
	return inspect.Entry{
		Name: name, Kind: inspect.Reentrant, HolderCount: 1, Holders: []inspect.Holder{{}},
		Waiters: []inspect.Waiter{{Since: time.Now().Add(-time.Minute)}}, WaiterCount: 1,
	}
}

// get sends a request to the site.
func (s *testSite) get(target, host string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", target, nil)
	r.Host = host
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

func TestOtherHostsAreRefusedOnLoopback(t *testing.T) {
	t.Parallel()
	s := newTestSite()
	for host, code := range map[string]int{
		"localhost": 200, "localhost:80": 200, "127.0.0.1:7290": 200, "127.8.8.8": 200, "[::1]:7290": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:7290": 403, "10.0.0.1": 403, "": 403, "localhost.evil.example": 403,
	} {
		w := s.get("/", host)
		require.Equal(t, code, w.Code, host)
	}
	s.loopback = false
	require.Equal(t, 200, s.get("/", "locks.example").Code)
}

func TestBreakingTakesTheToken(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	allow := allowWith(func() string { return token })
	for sent, is := range map[string]bool{token: true, "": false, token + "x": false, token[1:]: false} {
		r := httptest.NewRequest("POST", "/break?token="+token, strings.NewReader(url.Values{"token": {sent}}.Encode())) // a token in a URL ends in logs
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		require.Equal(t, is, allow(r, inspect.Entry{}) == nil, sent)
	}
}

func TestMetricsByKind(t *testing.T) {
	t.Parallel()
	s := newTestSite(entry("a"), entry("b"))
	text := s.get("/metrics", "localhost").Body.String()
	for _, line := range []string{
		`signalbox_up 1`, `signalbox_list_age_seconds 7`, `signalbox_list_keys 9`, `signalbox_list_more_names 0`, `signalbox_names{kind="reentrant"} 2`, `signalbox_waiters{kind="reentrant"} 2`, `signalbox_names{kind="fair"} 0`,
		`signalbox_longest_wait_seconds{kind="reentrant"} 60`,
	} {
		require.Contains(t, text, "\n"+line)
	}
	s = newTestSite(inspect.Entry{Name: "a", Kind: inspect.Shards, Shards: 8, HolderCount: 2, Unowned: 3, UnownedSince: time.Now().Add(-time.Hour)})
	text = s.get("/metrics", "localhost").Body.String()
	for _, line := range []string{
		`signalbox_shards{group="a"} 8`, `signalbox_shards_members{group="a"} 2`, `signalbox_shards_unowned{group="a"} 3`,
		`signalbox_shards_unowned_seconds{group="a"} 360`, `signalbox_shards_draining_seconds{group="a"} 0`, `signalbox_names{kind="shards"} 1`,
	} {
		require.Contains(t, text, "\n"+line)
	}
	s = newTestSite()
	s.err = errors.New("the server is away\nfor now")
	text = s.get("/metrics", "localhost").Body.String()
	require.Contains(t, text, "\nsignalbox_up 0")
	require.NotContains(t, text, "signalbox_names{", "not known is not 0")
}
