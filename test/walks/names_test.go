// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/signalbox-go/signalbox/scripts"
)

const folder = "../../scripts/"

// builtIn are the names that a server defines and scripts use.
var builtIn = strings.Fields("ARGV KEYS assert ipairs math pairs pcall redis select string table tonumber type unpack")

// nameSet is a set of Lua names.
type nameSet map[string]bool

// read returns the names that a text uses without defining them, and those that it defines for the
// text behind it.
func read(t *testing.T, name, text string) (free, defined nameSet) {
	t.Helper()
	chunk, err := parse.Parse(strings.NewReader(text), name)
	require.NoError(t, err)
	free, defined = make(nameSet), make(nameSet)
	for _, statement := range chunk {
		if local, isLocal := statement.(*ast.LocalAssignStmt); isLocal {
			for _, name := range local.Names {
				defined[name] = true
			}
		}
	}
	compiled, err := lua.Compile(chunk, name)
	require.NoError(t, err)
	addGlobals(free, compiled)
	named := constants(t)
	maps.DeleteFunc(free, func(name string, _ bool) bool { return named[name] })
	return free, defined
}

// constants returns the names for which the scripts get a number or a text.
func constants(t *testing.T) nameSet {
	t.Helper()
	file, err := os.Open(folder + "constants.lua")
	require.NoError(t, err)
	defer file.Close()
	chunk, err := parse.Parse(file, "constants")
	require.NoError(t, err)
	named := make(nameSet)
	for _, statement := range chunk {
		local, isLocal := statement.(*ast.LocalAssignStmt)
		require.True(t, isLocal)
		named[local.Names[0]] = true
	}
	return named
}

// addGlobals adds the names that a function takes for global ones.
func addGlobals(free nameSet, function *lua.FunctionProto) {
	const (
		codeShift = 26
		constants = 1<<18 - 1
	)
	for _, instruction := range function.Code {
		code := int(instruction >> codeShift)
		if code != lua.OP_GETGLOBAL && code != lua.OP_SETGLOBAL {
			continue
		}
		if name := function.Constants[instruction&constants].String(); !slices.Contains(builtIn, name) {
			free[name] = true
		}
	}
	for _, inner := range function.FunctionPrototypes {
		addGlobals(free, inner)
	}
}

// A name that no part defines for a script, or that it defines in another block, would be a global
// one: the server refuses it when the line is reached.
func TestAScriptUsesNoGlobalName(t *testing.T) {
	t.Parallel()
	all, err := scripts.All()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, s := range all {
		free, _ := read(t, s.Name, s.Source)
		require.Empty(t, free, s.Name)
	}
}

var (
	includes = regexp.MustCompile(`(?m)^ *-- include ([a-z/-]+)$`)
	uses     = regexp.MustCompile(`(?m)^-- uses     (.+)$`)
	defines  = regexp.MustCompile(`(?m)^-- defines  (.+)$`)
)

// scriptPart is the file of a part.
type scriptPart struct {
	text          string
	includes      []string
	free, defined nameSet
}

func readParts(t *testing.T) map[string]*scriptPart {
	t.Helper()
	files, err := filepath.Glob(folder + "parts/*/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	parts := make(map[string]*scriptPart)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		p := &scriptPart{text: string(text), includes: included(string(text))}
		p.free, p.defined = read(t, file, p.text)
		parts[strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), folder+"parts/"), ".lua")] = p
	}
	return parts
}

func included(text string) []string {
	var found []string
	for _, m := range includes.FindAllStringSubmatch(text, -1) {
		found = append(found, m[1])
	}
	return found
}

var update = flag.Bool("update", false, "write the names that parts use and define into their headers")

// A part uses each name that its text has and does not declare, whether the script or a part that it
// includes declares it. It defines each local name of its outermost block.
func TestAPartSaysWhatItUsesAndDefines(t *testing.T) {
	t.Parallel()
	parts := readParts(t)
	for name, p := range parts {
		requireUsed(t, parts, name, p.includes, p.free)
		if *update {
			text := uses.ReplaceAllString(p.text, "-- uses     "+list(p.free))
			text = defines.ReplaceAllString(text, "-- defines  "+list(p.defined))
			require.NoError(t, os.WriteFile(folder+"parts/"+name+".lua", []byte(text), 0o644))
			continue
		}
		require.Equal(t, list(p.free), namesOf(t, uses, p.text), "%s uses", name)
		require.Equal(t, list(p.defined), namesOf(t, defines, p.text), "%s defines", name)
	}
}

func TestAScriptIncludesWhatItUses(t *testing.T) {
	t.Parallel()
	parts := readParts(t)
	files, err := filepath.Glob(folder + "*/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		free, _ := read(t, file, string(text))
		requireUsed(t, parts, file, included(string(text)), free)
	}
}

// namesOf returns the names of a line of the header.
func namesOf(t *testing.T, line *regexp.Regexp, text string) string {
	t.Helper()
	m := line.FindStringSubmatch(text)
	require.NotNil(t, m, text)
	return m[1]
}

// list writes names as a header has them.
func list(names nameSet) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}

// requireUsed checks that each part that a text includes defines a name that the text uses.
func requireUsed(t *testing.T, parts map[string]*scriptPart, name string, include []string, free nameSet) {
	t.Helper()
	for _, i := range include {
		require.Contains(t, parts, i, name)
		isUsed := slices.ContainsFunc(slices.Collect(maps.Keys(parts[i].defined)), func(defined string) bool { return free[defined] })
		require.True(t, isUsed, "%s includes %s and uses no name that it defines", name, i)
	}
}
