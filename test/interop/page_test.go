// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// testsOf returns the tests in the files of this package that match.
func testsOf(t *testing.T, pattern string) (tests []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(source), -1) {
			tests = append(tests, m[1])
		}
	}
	return tests
}

// Each statement of the page on the Java client names a test that checks it, and the page names every test
// of protocol*_test.go.
func TestThePageNamesTheTestsOfTheProtocol(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redisson-protocol.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`Test\w+`).FindAllString(string(page), -1)
	require.Subset(t, named, testsOf(t, "protocol*_test.go"))
	require.Subset(t, testsOf(t, "*_test.go"), named)
	for _, statement := range regexp.MustCompile(`(?m)^\| .* \|$|^\* \*.*(?:\n  .*)*`).FindAllString(string(page), -1) {
		require.Regexp(t, "`Test|^\\| what ", statement, "a statement that names no test")
	}
}

// The page says which versions it was looked at with.
func TestThePageNamesTheVersions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redisson-protocol.md")
	require.NoError(t, err)
	pom, err := os.ReadFile("../../interop/java/pom.xml")
	require.NoError(t, err)
	versions := regexp.MustCompile(`<redisson\.version>(.*)</redisson\.version>`).FindAllStringSubmatch(string(pom), -1)
	require.Len(t, versions, 2)
	for _, version := range versions {
		require.Contains(t, string(page), version[1])
	}
}

// Every method of the client that returns a lock, or something that takes locks, has a row of the
// page.
func TestThePageNamesEveryClassOfLocks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redisson-protocol.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(page), "\n## Which classes can be shared\n")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `[^`]+`, `(\\w+)` \\|").FindAllStringSubmatch(table, -1)
	methods := make(map[string]bool)
	for _, row := range rows {
		methods[row[1]] = true
	}
	eachRelease(t, func(t *testing.T, release string) {
		p := newPeer(t, release, redistest.Start(t))
		for method := range strings.SplitSeq(p.must(t, "a", "other-classes"), ",") {
			require.True(t, methods[method], "%s has no row", method)
		}
	})
}
