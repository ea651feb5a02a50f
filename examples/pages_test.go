// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Every piece of Go in a README and in the pages of docs/how-to stands, line for line, in a Go file to which the page
// links above it. So it compiles, and the tests of that file run it.
func TestPagesShowCodeThatCompiles(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../docs/how-to/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	link := regexp.MustCompile(`\]\(([^)]+\.go)\)`)
	readmes, err := filepath.Glob("../*/README.md") // of the modules
	require.NoError(t, err)
	contributed, err := filepath.Glob("../contrib/*/README.md")
	require.NoError(t, err)
	require.NotEmpty(t, contributed)
	for _, page := range slices.Concat(pages, readmes, contributed, []string{"../README.md"}) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		parts := strings.Split(string(text), "\n```go\n")
		linked := ""
		for i, part := range parts[1:] {
			for _, path := range link.FindAllStringSubmatch(parts[i], -1) {
				file, err := os.ReadFile(filepath.Join(filepath.Dir(page), path[1]))
				require.NoError(t, err, page)
				linked += string(file)
			}
			code, _, closed := strings.Cut(part, "```")
			require.True(t, closed, page)
			if !strings.Contains(linked, code) {
				assert.Failf(t, "code that is in no file", "%s links to no file above that has these lines:\n%s", page, code)
			}
		}
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
