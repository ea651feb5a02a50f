// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"crypto/sha1" //nolint:gosec // the digest by which a server names a script, no secret
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

var update = flag.Bool("update", false, "append the digests of new scripts to testdata/digests.txt")

const digestsFile = "testdata/digests.txt"

// digest returns the line that stands for a script.
func digest(s *scripts.Script) string {
	sum := sha1.Sum([]byte(s.Source)) //nolint:gosec // see the import
	return fmt.Sprintf("%s v%d %x %d", s.Name, s.Version, sum, len(s.Source))
}

// readDigests returns the lines of the file by script, "name vN", and its text.
func readDigests(t *testing.T) (lines map[string]string, text string) {
	t.Helper()
	file, err := os.ReadFile(digestsFile)
	require.NoError(t, err)
	lines = make(map[string]string)
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		fields := strings.Fields(line)
		require.Len(t, fields, 4, "%s: %q", digestsFile, line)
		script := fields[0] + " " + fields[1]
		require.NotContains(t, lines, script, "%s has %s twice", digestsFile, script)
		lines[script] = line
	}
	return lines, string(file)
}

func TestAReleasedScriptNeverChanges(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	lines, text := readDigests(t)
	for _, s := range all {
		script := fmt.Sprintf("%s v%d", s.Name, s.Version)
		line, known := lines[script]
		delete(lines, script)
		switch {
		case !known && *update:
			text += digest(s) + "\n"
		case !known:
			t.Errorf("%s is new: go test ./scripts -run %s -update appends it to %s", script, t.Name(), digestsFile)
		case line != digest(s):
			t.Errorf("%s was changed: add the next version, do not edit this one\n  it was %s\n  it is  %s", script, line, digest(s))
		}
	}
	require.Empty(t, lines, "released scripts are gone: a retired version stays in its folder")
	if *update && !t.Failed() {
		require.NoError(t, os.WriteFile(digestsFile, []byte(text), 0o644))
	}
}

func TestTheServerKnowsAScriptByTheDigestOfItsFile(t *testing.T) {
	t.Parallel()
	redistest.NeedServer(t)
	all, err := scripts.All()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, s := range all {
		require.Equal(t, s.SHA1, server.MustDo(t, "SCRIPT", "LOAD", s.Source), s.Name)
	}
}

// What SLOWLOG shows as EVALSHA of a digest is the script with that SHA1.
func Example() {
	digest := proto.LockLeaveScript.SHA1 // from SLOWLOG
	all, err := scripts.All()
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range all {
		if s.SHA1 == digest {
			title, _, _ := strings.Cut(s.Source, "\n")
			fmt.Println(s.Name, s.Version)
			fmt.Println(title)
		}
	}
	// Output:
	// lock/leave 1
	// -- lock/leave v1
}
