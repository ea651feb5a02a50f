// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
)

// The locks of docs/migration.md, as it shows them.

func shareSetNX(session *signalbox.Session) lock {
	mu := reentrant.New(session, "order/42", signalbox.WithLayout(setnx.Layout()))
	return mu
}

func bothBySetNX(session *signalbox.Session) lock {
	mu := multilock.New(reentrant.New(session, "order/42", signalbox.WithLayout(setnx.Layout())), reentrant.New(session, "order/42"))
	return mu
}

func newAlone(session *signalbox.Session) lock {
	mu := reentrant.New(session, "order/42")
	return mu
}

func shareRueidislock(session *signalbox.Session) lock {
	mu := multilock.New(
		reentrant.New(session, "rueidislock:0:order/42", signalbox.WithLayout(setnx.Layout())),
		reentrant.New(session, "rueidislock:1:order/42", signalbox.WithLayout(setnx.Layout())),
		reentrant.New(session, "rueidislock:2:order/42", signalbox.WithLayout(setnx.Layout())),
	)
	return mu
}

func bothByRueidislock(session *signalbox.Session) lock {
	mu := multilock.New(
		reentrant.New(session, "rueidislock:0:order/42", signalbox.WithLayout(setnx.Layout())),
		reentrant.New(session, "rueidislock:1:order/42", signalbox.WithLayout(setnx.Layout())),
		reentrant.New(session, "rueidislock:2:order/42", signalbox.WithLayout(setnx.Layout())),
		reentrant.New(session, "order/42"),
	)
	return mu
}

func bothByRedisson(session *signalbox.Session) lock {
	mu := multilock.New(reentrant.New(session, "order/42", signalbox.WithLayout(redisson.Layout())), reentrant.New(session, "order/42"))
	return mu
}

func permitAndLock(session *signalbox.Session) lock {
	mu := multilock.New(semaphore.New(session, "order/42", 1).Permits(1), reentrant.New(session, "order/42"))
	return mu
}

// Every piece of Go in docs/migration.md stands in this file, line for line, so that it compiles and the tests run it.
func TestPageShowsTheCodeThatRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/migration.md")
	require.NoError(t, err)
	require.Contains(t, string(page), "](../test/migration/steps_test.go)")
	file, err := os.ReadFile("steps_test.go")
	require.NoError(t, err)
	pieces := regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```$").FindAllStringSubmatch(string(page), -1)
	require.Len(t, pieces, strings.Count(string(page), "```go"))
	for _, piece := range pieces {
		require.Contains(t, unindented(string(file)), unindented(piece[1]))
	}
}

// unindented returns the lines of a text without what they begin with: the page indents them by its lists.
func unindented(text string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(text, "")
}
