// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"time"
	"unicode"
)

// suspicion says how likely a refusal comes from the wrong server. A server that was demoted keeps its connections, and an
// address that led to it, such as a name, a Service or a balancer, may lead to another server by now. Only a new connection
// finds out.
type suspicion int

const (
	// unsuspicious means that the refusal says nothing against the server.
	unsuspicious suspicion = iota
	// suspectServer means that the server is the wrong one if it refuses for some seconds: a primary that its replicas have left,
	// or one that restarts after another has taken over.
	suspectServer
	// wrongServer means that the client must connect to another server.
	wrongServer
)

// suspectFor is how long refusals last before a connection is left for them; suspectGap is the greatest
// time between two refusals that count as one series.
const suspectFor, suspectGap = 3 * time.Second, 10 * time.Second

// suspiciousCodes are the words that raise suspicion, wherever they stand in a refusal and in any case: a proxy or a script may
// repeat them.
//
//nolint:gochecknoglobals // a constant table
var suspiciousCodes = map[string]suspicion{
	"READONLY": wrongServer, "MASTERDOWN": wrongServer,
	"NOREPLICAS": suspectServer, "LOADING": suspectServer, "CLUSTERDOWN": suspectServer, "NOMASTERLINK": suspectServer,
}

// wrongServerPhrases are the refusals of servers that send no code, in lower case.
//
//nolint:gochecknoglobals // a constant table
var wrongServerPhrases = []string{"read only replica", "read-only replica", "read only slave", "instance state changed (master -> replica"}

// suspicionOf returns the suspicion that a refusal raises. Refusals that repeat a part of the request raise none.
func suspicionOf(words string) suspicion {
	upper := strings.ToUpper(words)
	for _, repeats := range []string{"NOPERM", "ERR UNKNOWN ", "WRONGPASS", "ERR WRONG NUMBER"} {
		if strings.HasPrefix(upper, repeats) {
			return unsuspicious
		}
	}
	most := unsuspicious
	for word := range strings.FieldsFuncSeq(upper, func(r rune) bool { return !unicode.IsLetter(r) }) {
		most = max(most, suspiciousCodes[word])
	}
	lower := strings.ToLower(words)
	for _, phrase := range wrongServerPhrases {
		if strings.Contains(lower, phrase) {
			return wrongServer
		}
	}
	return most
}

// movedTo returns the address in a redirection, or "".
func movedTo(words string) string {
	fields := strings.Fields(words)
	for i, field := range fields {
		if strings.EqualFold(strings.TrimPrefix(field, "-"), "MOVED") && i+2 < len(fields) {
			return fields[i+2]
		}
	}
	return ""
}

// isBrokenRedirection reports whether a refusal begins as a redirection and names no address. The client panics at it.
func isBrokenRedirection(words string) bool {
	return (strings.HasPrefix(words, "MOVED") || strings.HasPrefix(words, "ASK")) && strings.Count(words, " ") < 2
}
