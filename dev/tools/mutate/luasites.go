// SPDX-License-Identifier: Apache-2.0

package main

import (
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

// luaSites returns the places in a text.
func luaSites(source string) (found []site) {
	lines := strings.SplitAfter(source, "\n")
	offset := 0
	for i, line := range lines {
		add := func(at int, operator, old, changed string) {
			found = append(found, site{at: offset + at, operator: operator, old: old, new: changed})
		}
		mutateLuaTokens(line, add)
		bare := strings.TrimSpace(withoutComment(line))
		next := ""
		if i+1 < len(lines) {
			next = strings.TrimSpace(lines[i+1])
		}
		if luaStatement.MatchString(bare) && !luaBlock.MatchString(bare) && !luaOpen.MatchString(bare) && isBalanced(bare) && !luaTail.MatchString(next) {
			add(strings.Index(line, bare), "statement", bare, "")
		}
		offset += len(line)
	}
	return found
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
			add(at[0], "not", "not ", "")
		case isUnary && word(i+1) == "1":
			add(at[0], "constant", "-1", "-2")
		case isUnary:
		case luaOperators[token] != nil:
			for _, changed := range luaOperators[token] {
				add(at[0], "operator", token, changed)
			}
		case isNumber && word(i-1) != "-" && !(word(i-1) == "[" && (word(i-2) == "KEYS" || word(i-2) == "ARGV")):
			add(at[0], "constant", token, changed)
		case strings.HasPrefix(token, "'") && (isComparison(word(i-1)) || isComparison(word(i+1))):
			add(at[0], "string", token, strings.TrimSuffix(token, "'")+"!'")
		}
	}
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
