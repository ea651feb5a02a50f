// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// luaToken matches one token: a comment, a string, a number, a word, or an operator.
var luaToken = regexp.MustCompile(`--[^\n]*|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|\d+(?:\.\d+)?|[A-Za-z_]\w*|==|~=|<=|>=|\.\.\.?|[^\s\w]`)

// luaOperators are what becomes of an operator: its neighbour, and its contrary.
var luaOperators = map[string][]string{
	"<": {"<=", ">="}, "<=": {"<", ">"}, ">": {">=", "<="}, ">=": {">", "<"},
	"==": {"~="}, "~=": {"=="}, "+": {"-"}, "-": {"+"}, "and": {"or"}, "or": {"and"},
}

// luaConstants are the numbers that are shifted by one. The number of a key or an argument is not:
// every call fails then.
var luaConstants = map[string]string{"0": "1", "1": "2"}

// luaBeforeUnary are the tokens after which a minus is a sign.
var luaBeforeUnary = strings.Fields("( [ { , = == ~= < > <= >= and or not return + - * / ..")

var (
	// luaStatement is a whole statement on a line of its own, which the script can do without: a
	// call, an assignment to what is declared elsewhere, a return or a break.
	luaStatement = regexp.MustCompile(`^(?:return\b.*|break|[a-z_]\w*(?:[.:]\w+)*\(.*\)|[a-z_][\w.]*(?:\[[^=]*\])?(?:, [a-z_][\w.]*(?:\[[^=]*\])?)* = .*)$`)
	// luaOpen ends a line that continues in the next one.
	luaOpen  = regexp.MustCompile(`(?:[,({+=]|\.\.|\b(?:and|or|not|then|do|function))$`)
	luaBlock = regexp.MustCompile(`\b(?:function|if|for|while|repeat|until|else|elseif|local)\b`)
	luaTail  = regexp.MustCompile(`^(?:and|or|\.\.|[)}+])`)
)

// luaFiles returns the scripts and their parts by path.
func luaFiles(root string) (map[string]string, error) {
	found := make(map[string]string)
	for _, pattern := range []string{"scripts/*/*.lua", "scripts/parts/*/*.lua"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			found[filepath.ToSlash(name)] = string(text)
		}
	}
	return found, nil
}

// luaMutants returns all mutants of the scripts and of their parts. A mutant of a part is in every
// script that includes it.
func luaMutants(root string) ([]mutant, error) {
	files, err := luaFiles(root)
	if err != nil {
		return nil, err
	}
	var list []mutant
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, mutateLua(name, files[name])...)
	}
	return list, nil
}

// mutateLua returns all mutants of one text.
func mutateLua(file, source string) []mutant {
	var list []mutant
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		text := strings.TrimSpace(line)
		add := func(at int, kind, old, changed string) {
			list = append(list, mutant{File: file, Line: i + 1, Col: at + 1 - strings.Index(line, text), Kind: kind, Old: old, New: changed, Text: text})
		}
		mutateLuaTokens(line, add)
		bare := strings.TrimSpace(withoutComment(line))
		next := ""
		if i+1 < len(lines) {
			next = strings.TrimSpace(lines[i+1])
		}
		if luaStatement.MatchString(bare) && !luaBlock.MatchString(bare) && !luaOpen.MatchString(bare) && isBalanced(bare) && !luaTail.MatchString(next) {
			add(strings.Index(line, bare), "LUA_STATEMENT", bare, "")
		}
	}
	return list
}

func mutateLuaTokens(line string, add func(at int, kind, old, changed string)) {
	tokens := luaToken.FindAllStringIndex(line, -1)
	word := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return line[tokens[i][0]:tokens[i][1]]
	}
	for i, at := range tokens {
		token := word(i)
		isUnary := token == "-" && (i == 0 || slices.Contains(luaBeforeUnary, word(i-1)))
		changed, isNumber := luaConstants[token]
		switch {
		case token == "not":
			add(at[0], "LUA_NOT", "not ", "")
		case isUnary && word(i+1) == "1":
			add(at[0], "LUA_CONSTANT", "-1", "-2")
		case isUnary:
		case luaOperators[token] != nil:
			for _, changed := range luaOperators[token] {
				add(at[0], "LUA_OPERATOR_"+kindOf(changed), token, changed)
			}
		case isNumber && word(i-1) != "-" && !(word(i-1) == "[" && (word(i-2) == "KEYS" || word(i-2) == "ARGV")):
			add(at[0], "LUA_CONSTANT", token, changed)
		case strings.HasPrefix(token, "'") && (isComparison(word(i-1)) || isComparison(word(i+1))):
			add(at[0], "LUA_STRING", token, strings.TrimSuffix(token, "'")+"!'")
		}
	}
}

// kindOf keeps two mutants of one operator apart.
func kindOf(operator string) string {
	return map[string]string{
		"<": "LT", "<=": "LE", ">": "GT", ">=": "GE", "==": "EQ", "~=": "NE", "+": "ADD", "-": "SUB", "and": "AND", "or": "OR",
	}[operator]
}

func isComparison(token string) bool { return token == "==" || token == "~=" }

func withoutComment(line string) string {
	for _, at := range luaToken.FindAllStringIndex(line, -1) {
		if strings.HasPrefix(line[at[0]:], "--") {
			return line[:at[0]]
		}
	}
	return line
}

func isBalanced(text string) bool {
	depth := 0
	for _, at := range luaToken.FindAllStringIndex(text, -1) {
		switch text[at[0]] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth--
		}
	}
	return depth == 0
}

// commentScripts returns every script and part with a comment more at its end, which changes nothing
// that it does. A test that fails then sees any change of a text.
func commentScripts(root string) (map[string]string, error) {
	files, err := luaFiles(root)
	for name := range files {
		files[name] += "-- A comment more.\n"
	}
	return files, err
}
