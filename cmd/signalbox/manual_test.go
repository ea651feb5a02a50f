// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
)

var update = flag.Bool("update", false, "write the manual anew")

// The pages in man are those of the commands. After a change: go test . -run TestManual -update writes them.
func TestManualIsThatOfTheCommands(t *testing.T) {
	t.Parallel()
	const kept = "man"
	folder := t.TempDir()
	if *update {
		require.NoError(t, os.RemoveAll(kept))
		require.NoError(t, os.Mkdir(kept, 0o755))
		folder = kept
	}
	root := newRoot()
	undated(root)
	date := time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC) // of the first page; builds do not change it
	require.NoError(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Date: &date, Source: "signalbox", Manual: "signalbox"}, folder))
	require.Equal(t, pages(t, folder), pages(t, kept))
}

func undated(c *cobra.Command) {
	c.DisableAutoGenTag = true
	for _, sub := range c.Commands() {
		undated(sub)
	}
}

func pages(tb testing.TB, folder string) map[string]string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.1"))
	require.NoError(tb, err)
	require.NotEmpty(tb, files)
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(tb, err)
		texts[filepath.Base(file)] = string(text)
	}
	return texts
}

func TestVersionSaysTheCommitAndGo(t *testing.T) {
	t.Parallel()
	const rest = `, go1\.\S+, \w+/\w+\)$`
	require.Regexp(t, `^signalbox v0\.1\.0 \(commit 4f2e`+rest, versionOf(new(debug.BuildInfo), "v0.1.0", "4f2e"), "a release")
	require.Regexp(t, `^signalbox v0\.1\.0 \(commit unknown`+rest, versionOf(&debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}}, "", ""), "go install of a tag")
	checkout := []debug.BuildSetting{{Key: "vcs.revision", Value: "4f2e"}, {Key: "vcs.modified", Value: "true"}}
	require.Regexp(t, `^signalbox \(devel\) \(commit 4f2e, changed`+rest, versionOf(&debug.BuildInfo{Settings: checkout}, "", ""), "a build in a checkout")
}

// A wait polls often at first, and 50 times as rarely after half a minute.
func TestWaitPollsEverMoreRarely(t *testing.T) {
	t.Parallel()
	for waited, pause := range map[time.Duration]time.Duration{
		0: 20 * time.Millisecond, 160 * time.Millisecond: 20 * time.Millisecond, 16 * time.Second: time.Second,
		32 * time.Second: 2 * time.Second, time.Hour: 2 * time.Second,
	} {
		require.Equal(t, pause, pauseAfter(waited), waited)
	}
	polls := 0
	for waited := time.Duration(0); waited < 10*time.Minute; waited += pauseAfter(waited) {
		polls++
	}
	require.Less(t, polls, 450, "four polls a second would be 2,400")
}

// NewRoot returns the command with all its subcommands, for tests that start it as a process.
var NewRoot = newRoot

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
