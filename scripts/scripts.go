// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed */*.lua parts/*/*.lua
var files embed.FS

// digests has a line "name vN digest size" for each script. The digests are embedded, and not
// computed, because Go refuses to compute a SHA-1 under GODEBUG=fips140=only. A test compares them
// with the texts.
//
//go:embed testdata/digests.txt
var digests string

// Script is one version of one script.
type Script struct {
	// Name is the path without version and ending: "lock/enter".
	Name string
	// Version counts from 1.
	Version int
	// Source is the text of the file, with its parts in place of the lines that include them: what
	// EVAL sends.
	Source string
	// SHA1 is the digest of Source in hexadecimal: what EVALSHA sends.
	SHA1 string
}

// All returns every script in the module, retired versions included, ordered by name and version.
func All() ([]*Script, error) {
	paths, err := fs.Glob(files, "*/*.lua")
	if err != nil {
		return nil, fmt.Errorf("scripts: %w", err)
	}
	all := make([]*Script, 0, len(paths))
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".v")
		version, err := strconv.Atoi(strings.TrimSuffix(rest, ".lua"))
		if err != nil {
			return nil, fmt.Errorf("scripts: %s is not named <primitive>/<verb>.v<N>.lua: %w", path, err)
		}
		all = append(all, load(name, version))
	}
	slices.SortFunc(all, func(a, b *Script) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return all, nil
}

// Load returns a version of a script by its name, such as "lock/enter", or nil if there is no such script.
func Load(name string, version int) *Script {
	if _, err := fs.Stat(files, scriptPath(name, version)); err != nil {
		return nil
	}
	return load(name, version)
}

func scriptPath(name string, version int) string { return fmt.Sprintf("%s.v%d.lua", name, version) }

func load(name string, version int) *Script {
	source := compose(readFile(scriptPath(name, version)))
	return &Script{Name: name, Version: version, Source: source, SHA1: digestOf(name, version)}
}

// readFile panics for a file that is not embedded: that is a mistake in this folder, and the first
// test finds it.
func readFile(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic(err) //nolint:forbidigo // see above
	}
	return string(text)
}

// digestOf returns the digest of a script, or "" if it has no line. A script without a digest still
// works: no server knows "", so each call is sent with the text.
func digestOf(name string, version int) string {
	script := fmt.Sprintf("%s v%d ", name, version)
	for line := range strings.Lines(digests) {
		if rest, found := strings.CutPrefix(line, script); found {
			digest, _, _ := strings.Cut(rest, " ")
			return digest
		}
	}
	return ""
}
