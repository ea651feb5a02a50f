// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"regexp"
	"slices"
	"strings"
)

// englishCodes lists the codes of servers that are English words as well, with which a proxy may begin a sentence of
// its own: "Moved to another pool", "Busy". They count as a server's only in capital letters.
//
//nolint:gochecknoglobals // a constant table
var englishCodes = []string{"LOADING", "BUSY", "OOM", "MOVED", "ASK", "DENIED"}

// begins reports whether a server's words begin with one of these texts, as whole words. A proxy that hands a server's words on
// may add the general code or lose the capital letters.
func begins(words string, texts []string) bool {
	words = withoutGeneralCode(withoutScriptPosition(words))
	for _, text := range texts {
		if len(words) < len(text) || !endsWord(words[len(text):]) {
			continue
		}
		if start := words[:len(text)]; start == text || strings.EqualFold(start, text) && !slices.Contains(englishCodes, text) {
			return true
		}
	}
	return false
}

// scriptPosition is what Redis 6.2 says in front of an error that ended a script, or that a script returns:
// "ERR Error running script (call to f_<digest>): @user_script:4: @user_script: 4: -OOM command not allowed".
var scriptPosition = regexp.MustCompile(`^(?:-?ERR )?(?:Error running script \(call to f_[0-9a-f]+\): )?(?:@user_script: ?\d+: )+`)

// withoutScriptPosition returns the words of the command that failed.
func withoutScriptPosition(words string) string {
	return words[len(scriptPosition.FindString(words)):]
}

// withoutGeneralCode returns the words without the general code in front of them. The client removes it as servers write it.
func withoutGeneralCode(words string) string {
	const general = "ERR "
	for words = strings.TrimLeft(words, "- "); len(words) > len(general) && strings.EqualFold(words[:len(general)], general); {
		words = strings.TrimLeft(words[len(general):], "- ")
	}
	return words
}

// endsWord reports whether a word ends before rest.
func endsWord(rest string) bool {
	return rest == "" || !('a' <= rest[0]|0x20 && rest[0]|0x20 <= 'z' || '0' <= rest[0] && rest[0] <= '9' || rest[0] == '_')
}
