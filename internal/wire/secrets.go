// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// shortSecret is the length below which a secret may be a part of ordinary words. It is recognised between quotes only.
const shortSecret = 6

// passwords returns the passwords in a greeting.
func passwords(requests []greetingRequest) (found []string) {
	for _, r := range requests {
		at := slices.IndexFunc(r.words, func(word string) bool { return strings.EqualFold(word, "AUTH") })
		switch {
		case at == 0 && len(r.words) > 1:
			found = append(found, r.words[len(r.words)-1])
		case at > 0 && r.is("HELLO") && len(r.words) > at+2:
			found = append(found, r.words[at+2])
		}
	}
	return found
}

// maskSecrets overwrites secrets in an error of a server, by as many stars: servers and proxies repeat what they refuse. The first word,
// which says what is refused, stays. A server may repeat the beginning of a secret alone, and write some bytes in another way.
func maskSecrets(refusal []byte, secrets []string) {
	_, words, _ := bytes.Cut(refusal, []byte(" "))
	for _, secret := range secrets {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, quoted[1 : len(quoted)-1], strings.NewReplacer("\r", " ", "\n", " ").Replace(secret)} {
			maskForm(words, form)
		}
	}
}

func maskForm(text []byte, form string) {
	beginning := form[:min(len(form), shortSecret)]
	for at := 0; beginning != ""; {
		i := bytes.Index(text[at:], []byte(beginning))
		if i < 0 {
			return
		}
		i += at
		at = i + len(beginning)
		for at < len(text) && at-i < len(form) && text[at] == form[at-i] {
			at++
		}
		if len(form) >= shortSecret || isQuoted(text, i, at) {
			copy(text[i:at], strings.Repeat("*", at-i))
		}
	}
}

// isQuoted reports whether text[i:end] is between two quotes.
func isQuoted(text []byte, i, end int) bool {
	return i > 0 && end < len(text) && strings.IndexByte("'`\"", text[i-1]) >= 0 && strings.IndexByte("'`\"", text[end]) >= 0
}
