// SPDX-License-Identifier: Apache-2.0

package surface_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestProseUsesTheWordsOfTheField counts the words of testdata/prose.txt in comments, documents and
// the names of tests. None may be used more often than the list allows: write the word beside it instead.
// A number that is too high is lowered, so that it only falls.
func TestProseUsesTheWordsOfTheField(t *testing.T) {
	t.Parallel()
	requireWords(t, "testdata/prose.txt", readProse(t))
}

// requireWords fails if passages use a word of a list more often, or less often, than the list says.
func requireWords(t *testing.T, listFile string, passages []passage) {
	t.Helper()
	list, err := os.ReadFile(listFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(list)) {
		fields := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(fields) != 3 {
			continue // a comment
		}
		allowed, err := strconv.Atoi(fields[0])
		require.NoError(t, err, line)
		word := regexp.MustCompile(`(?i)\b(` + fields[1] + `)\b`)
		var found []string
		for _, p := range passages {
			for range word.FindAllString(p.text, -1) {
				found = append(found, p.place)
			}
		}
		if len(found) > allowed {
			slices.Sort(found)
			assert.Failf(t, "not a word of the field", "%q is used %d times, %d are allowed; write %s:\n%s",
				fields[1], len(found), allowed, fields[2], strings.Join(found, "\n"))
		}
		assert.GreaterOrEqual(t, len(found), allowed, "%q is used less often: lower its number in %s", fields[1], listFile)
	}
}

// A passage is a line of prose, and its position.
type passage struct{ place, text string }

// The prose of a file: all of a document outside of fences, and of code the comments and the names of tests.
var (
	goProse  = regexp.MustCompile(`//.*|func Test\w+`)
	luaProse = regexp.MustCompile(`--.*`)
	cProse   = regexp.MustCompile(`(//|/?\*).*`) // also the lines of a block
	shProse  = regexp.MustCompile(`(^|\s)#.*`)
	camel    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

func readProse(tb testing.TB) (all []passage) {
	tb.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && d.Name() != ".ci" && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, passages(path, string(text))...)
		return nil
	})
	require.NoError(tb, err)
	return all
}

func passages(path, text string) (all []passage) {
	fenced := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		switch filepath.Ext(path) {
		case ".md":
			if strings.HasPrefix(line, "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
		case ".go":
			line = camel.ReplaceAllString(strings.Join(goProse.FindAllString(line, -1), " "), "$1 $2")
		case ".lua":
			line = strings.Join(luaProse.FindAllString(line, -1), " ")
		case ".java", ".pml":
			line = strings.Join(cProse.FindAllString(line, -1), " ")
		case ".py", ".sh", ".yml", ".yaml", "":
			line = strings.Join(shProse.FindAllString(line, -1), " ")
		default:
			return nil
		}
		all = append(all, passage{fmt.Sprintf("%s:%d", strings.TrimPrefix(path, root+"/"), n), line})
	}
	return all
}
