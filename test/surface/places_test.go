// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// contributing is the page that says where a new kind or script has to be added.
const contributing = root + "/CONTRIBUTING.md"

// Each kind is in each place of the table "Add a kind", so that the table is whole for the next one.
func TestEachKindIsInEveryPlace(t *testing.T) {
	t.Parallel()
	places := readPlaces(t, "Add a kind")
	for _, kind := range kindFolders(t) {
		word := regexp.MustCompile(`(?i)\b` + kind + `\b`)
		if kind == "countdown" {
			word = regexp.MustCompile(`(?i)\b(countdown|latch)\b`)
		}
		for _, p := range places {
			p.check(t, "<kind>", kind, word)
		}
	}
}

// Each script is in each place of the table "Add an argument to a script".
func TestEachScriptIsInEveryPlace(t *testing.T) {
	t.Parallel()
	places := readPlaces(t, "Add an argument to a script")
	source := readLoaded(t)
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		name := regexp.QuoteMeta(s.Name)
		variable := regexp.MustCompile(`(\w+)\s*= (?:load|scripts\.Load)\("` + name + `", `).FindStringSubmatch(source)
		require.NotNil(t, variable, s.Name)
		word := regexp.MustCompile(`\b(` + name + `|scripts\.` + variable[1] + `)\b`)
		for _, p := range places {
			p.check(t, "<script>", s.Name, word)
		}
	}
}

// readLoaded returns the text of the files that load the scripts.
func readLoaded(tb testing.TB) (source string) {
	tb.Helper()
	files, err := filepath.Glob(root + "/*/scripts.go")
	require.NoError(tb, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(tb, err)
		source += string(text)
	}
	return source
}

// place is a file or folder in which each item of a table is named.
type place struct {
	path   string
	except []string
}

// readPlaces returns the places of the table under a heading.
func readPlaces(tb testing.TB, heading string) (all []place) {
	tb.Helper()
	page, err := os.ReadFile(contributing)
	require.NoError(tb, err)
	_, section, found := strings.Cut(string(page), "## "+heading+"\n")
	require.True(tb, found, heading)
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| .* \\| ?(.*?) ?\\|$").FindAllStringSubmatch(section, -1) {
		for listed := range strings.FieldsSeq(row[1]) {
			all = append(all, place{strings.Trim(listed, "`"), strings.Fields(row[2])})
		}
	}
	require.NotEmpty(tb, all, heading)
	return all
}

// check fails if no file of the place names the item, unless the table says that it is not for the item.
func (p place) check(t *testing.T, placeholder, item string, word *regexp.Regexp) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, strings.ReplaceAll(p.path, placeholder, item)))
	require.NoError(t, err)
	own := strings.Contains(p.path, placeholder)
	found := own && len(files) > 0
	for _, file := range files {
		if !own {
			text, err := os.ReadFile(file)
			require.NoError(t, err, "CONTRIBUTING.md lists %s", p.path)
			found = found || word.Match(text)
		}
	}
	except := slices.ContainsFunc(p.except, func(pattern string) bool {
		is, err := path.Match(pattern, item)
		return err == nil && is
	})
	if except {
		assert.False(t, found && own, "%s is in %s: CONTRIBUTING.md says that it need not be", item, p.path)
		return
	}
	assert.True(t, found, "%s is missing in %s", item, p.path)
}

// kindFolders returns the names of the packages that are kinds: the folders of the library's module with a constructor.
func kindFolders(tb testing.TB) (all []string) {
	tb.Helper()
	folders, err := filepath.Glob(root + "/*/doc.go")
	require.NoError(tb, err)
	for _, doc := range folders {
		folder := filepath.Dir(doc)
		if _, err := os.Stat(folder + "/go.mod"); err == nil {
			continue // a module of its own
		}
		if name := filepath.Base(folder); !slices.Contains(strings.Fields("inspect redisson scripts setnx"), name) {
			all = append(all, name)
		}
	}
	require.Contains(tb, all, "reentrant")
	return all
}
