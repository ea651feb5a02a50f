// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"strings"
	"time"
	"unicode"
)

// What a refusal says of the server that sent it. A server that was demoted keeps its connections, and an address
// that meant it, such as a name, a Service or a balancer, may mean another server by now. Only a new connection
// finds out.
type suspicion int

const (
	// unsuspicious: the refusal says nothing against the server.
	unsuspicious suspicion = iota
	// suspectServer: the server is the wrong one if it refuses for some seconds: a primary that its replicas have left,
	// or one that starts again where another has taken over.
	suspectServer
	// wrongServer: the server is not the one that the client wants.
	wrongServer
)

// suspectFor is how long refusals last before a connection is left for them; doubtsApart is how far apart two of
// them are one after the other.
const suspectFor, suspectGap = 3 * time.Second, 10 * time.Second

// suspiciousCodes are the words by which refusals are known, as a proxy or a script may repeat them: anywhere, in any case.
//
//nolint:gochecknoglobals // a constant table
var suspiciousCodes = map[string]suspicion{
	"READONLY": wrongServer, "MASTERDOWN": wrongServer,
	"NOREPLICAS": suspectServer, "LOADING": suspectServer, "CLUSTERDOWN": suspectServer, "NOMASTERLINK": suspectServer,
}

// wrongServerPhrases are those of servers that send them without a code, in lower case.
//
//nolint:gochecknoglobals // a constant table
var wrongServerPhrases = []string{"read only replica", "read-only replica", "read only slave", "instance state changed (master -> replica"}

// suspicionOf returns what a refusal says of its server. Refusals that repeat a part of the request say nothing.
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
