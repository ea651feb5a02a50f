// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

const readme = "../README.md"

// block is a piece of Go in a page, and the line of text above it.
type block struct{ above, code string }

// Every piece of Go in the README and in the pages of docs/how-to stands, line for line, in the file that the line above
// it links to, and that of the README in examples/basic. So it compiles, and the tests of that program run it.
func TestPagesShowCodeThatCompiles(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/how-to/*.md")
	require.NoError(t, err)
	link := regexp.MustCompile(`\]\(([^)]+\.go)\)`)
	for _, page := range append(pages, readme) {
		for _, b := range blocks(t, page) {
			path := "basic/main.go"
			if linked := link.FindStringSubmatch(b.above); linked != nil {
				path = filepath.Join(filepath.Dir(page), linked[1])
			} else if page != readme {
				assert.Failf(t, "the line above this code links to no file", "%s:\n%s", page, b.code)
				continue
			}
			file, err := os.ReadFile(path)
			if assert.NoError(t, err, page) && !strings.Contains(string(file), b.code) {
				assert.Failf(t, "the page shows other code than the file", "%s: %s has no such lines:\n%s", page, path, b.code)
			}
		}
	}
}

// blocks returns the pieces of Go in a page.
func blocks(tb testing.TB, page string) (all []block) {
	tb.Helper()
	text, err := os.ReadFile(page)
	require.NoError(tb, err)
	rest := string(text)
	for {
		before, after, found := strings.Cut(rest, "\n```go\n")
		if !found {
			return all
		}
		above := strings.TrimSpace(before)
		above = above[strings.LastIndex(above, "\n")+1:]
		code, behind, closed := strings.Cut(after, "```")
		require.True(tb, closed, page)
		all, rest = append(all, block{above, code}), behind
	}
}

// The file that a user reads is short: what only the show needs is beside it.
func TestMainFilesAreShort(t *testing.T) {
	t.Parallel()
	mains, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	require.NotEmpty(t, mains)
	for _, path := range mains {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.LessOrEqual(t, strings.Count(string(text), "\n"), 80, path)
	}
}

// Dial takes every URL that the page about it shows. The files that some of them name are not there.
func TestURLsOfTheSetUpPageAreValid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/how-to/set-up.md")
	require.NoError(t, err)
	urls := regexp.MustCompile("\\| `((?:rediss?|unix)://[^`]+)` \\|").FindAllStringSubmatch(string(page), -1)
	require.GreaterOrEqual(t, len(urls), 8)
	for _, found := range urls {
		u, err := url.Parse(found[1])
		require.NoError(t, err)
		query := u.Query()
		for _, file := range []string{"ca", "cert", "key"} {
			if query.Has(file) {
				_, err := wire.ParseURL(u.String())
				require.ErrorContains(t, err, "the file cannot be read", u)
				query.Del(file)
			}
		}
		u.RawQuery = query.Encode()
		_, err = wire.ParseURL(u.String())
		assert.NoError(t, err, u)
	}
}

// The page lists the parameters that the documentation of signalbox.Dial lists.
func TestSetUpPageListsEveryParameter(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/how-to/set-up.md")
	require.NoError(t, err)
	source, err := os.ReadFile("../dial.go")
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^//\t(\w+(?:, \w+)*) {2,}\S`).FindAllStringSubmatch(string(source), -1)
	require.GreaterOrEqual(t, len(listed), 15)
	for _, row := range listed {
		for name := range strings.SplitSeq(row[1], ", ") {
			assert.Contains(t, string(page), "`"+name+"`")
		}
	}
}
