// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// refusalRemedies says what to do if a refusal lasts. The first row whose words a refusal begins with counts.
//
//nolint:gochecknoglobals // a constant table
var refusalRemedies = []struct {
	words  []string
	remedy string
}{
	{[]string{"READONLY", "MASTERDOWN"}, "let the address lead to the primary, or dial the sentinels: this server is a replica"},
	{memoryRefusals, "raise maxmemory, or remove keys of other programs; renewals and releases pass meanwhile"},
	{[]string{"MISCONF"}, "make room on the server's disk, or repair what its log says of saving"},
	{[]string{"NOREPLICAS"}, "bring the server's replicas back, or lower min-replicas-to-write"},
	{[]string{"LOADING", "LOADING Redis is loading", "LOADING Valkey is loading"}, "wait until the server has read its data; if it restarts again and again, its log says why"},
	{[]string{"BUSY", "BUSY Redis is busy", "BUSY Valkey is busy"}, "end the script of another client that runs for so long: SCRIPT KILL"},
	{[]string{"CLUSTERDOWN"}, "give the cluster a primary for each slot: CLUSTER INFO and CLUSTER SLOTS say which is missing"},
	{[]string{"MOVED", "ASK", "TRYAGAIN"}, "finish the move of slots; if no slot moves, make a client of the cluster"},
	{temporaryInScript, "finish the move of slots"},
	{[]string{"max number of clients"}, "raise maxclients, or end clients that are idle: CLIENT LIST"},
	{passwordUnset, unsetPassword},
	{[]string{"NOSCRIPT"}, "let EVAL reach the server unchanged: the text of the script was refused as well, so a proxy may replace it"},
	{[]string{unknownCommand, "unsupported command", "command is not available"}, "let the address lead to a server that runs scripts, or undo what renames or removes the command there"},
	{denials, "renew the client's credentials, or grant what the error names; docs/security.md lists the rights"},
	{denialsInScript, "grant what the error names; docs/security.md lists the rights"},
}

// refusalsOfAll lists the words with which a server refuses every script, whatever it does.
//
//nolint:gochecknoglobals // a constant table
var refusalsOfAll = slices.Concat(connectRefusals, passwordUnset, pausedForAll, withoutScripts)

// RefusesAll reports whether err says that the server refuses every script, whatever it does.
func RefusesAll(err error) bool {
	words := refusedWords(err)
	return begins(words, refusalsOfAll) || begins(words, []string{"NOPERM"}) && slices.Contains(runsScripts, strings.ToUpper(quoted(words)))
}

// refusedWords returns the words of a server that refused a call, or a connection; "" for any other error.
func refusedWords(err error) string {
	if refused := new(refusedError); errors.As(err, &refused) {
		return refused.words
	}
	return wordsOf(err)
}

// unsetPassword says what to do if a server has no password, and the client has one.
const unsetPassword = "remove the password from the client's settings, or set one at the server"

// Remedy says what to do if calls keep failing with err.
func Remedy(err error) string {
	if words := refusedWords(err); words != "" {
		for _, r := range refusalRemedies {
			if begins(words, r.words) {
				return r.remedy
			}
		}
		return "docs/refusals.md has the server's words; these may be a proxy's"
	}
	return connectRemedy(err)
}

func connectRemedy(err error) string {
	var (
		authority   x509.UnknownAuthorityError
		invalid     x509.CertificateInvalidError
		host        x509.HostnameError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		name        *net.DNSError
		credentials *credentialsError
	)
	switch {
	case errors.Is(err, rueidis.ErrClosing), errors.Is(err, errs.ErrClosed):
		return "close the session before its client"
	case errors.As(err, &credentials):
		return "repair the function for credentials, which failed"
	case errors.As(err, &authority):
		return "trust the authority of the server's certificate: ca in the URL, or RootCAs"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the server's certificate, or set this host's clock"
	case errors.As(err, &invalid), errors.As(err, &host):
		return "give the server a certificate for this use and this host name, or say which name it has: server_name in the URL"
	case errors.As(err, &record):
		return "name the server's TLS port; tls-cluster yes lets the nodes of a cluster name theirs, and tls-replication yes those behind sentinels"
	case errors.As(err, &alert), strings.Contains(err.Error(), "remote error: tls"):
		return "give this client a certificate that the server accepts"
	case errors.As(err, &name) && !name.IsTimeout:
		return "repair the name of the host, or its DNS"
	}
	return "check that the server runs, and the network, address and TLS settings of this client"
}
