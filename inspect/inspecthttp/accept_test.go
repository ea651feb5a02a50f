// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a request gets is what its Accept header weighs most; see RFC 9110, section 12.5.1. A tie is decided by the narrower range, and
// then by the first.
func TestTheWeightsOfAcceptDecide(t *testing.T) {
	t.Parallel()
	for _, accept := range [][]string{
		{"application/json"},
		{"Application/JSON"},
		{"application/json;q=0.001"},
		{"application/json; charset=utf-8"},
		{"application/json;q=1.000, text/html;q=0.9"},
		{"text/html;q=0.9, application/json"},
		{"text/html;q=0", "application/json;q=.1"},
		{"text/html;q=0, */*"},
		{"application/json, text/html"},
		{"application/json", "text/html"},
		{"application/json, text/plain, */*"}, // of axios
		{"*/*, application/json"},
		{"application/*"},
		{"application/*, text/*"},
		{"application/*, application/json;q=0.5, text/html;q=0.4"},
		{`text/plain;note="a, text/html", application/json`},
		{`text/plain;note="\", text/html", application/json`},
		{"text/html;q=nonsense, application/json;q=0.5"},
		{",, application/json ,"},
	} {
		require.True(t, prefersJSON(accept), "%q", accept)
	}
	for _, accept := range [][]string{
		nil,
		{""},
		{"*/*"},
		{"*/*;q=0.1"},
		{"*/*;q=0"},
		{"text/*"},
		{"text/html"},
		{"image/png"},
		{"application/json;q=0"},
		{"application/json;q=0.000, */*;q=0.1"},
		{"application/json;q=0, application/*"},
		{"application/json; Q=0"},
		{"application/json;charset=utf-8;q=0"},
		{"application/json;q=0.5, text/html"},
		{"application/json;q=0.5, */*;q=0.8"},
		{"application/json;q=0.5", "*/*"},
		{"text/html, application/json"},
		{"text/html", "application/json"},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"}, // of browsers
		{"text/html, application/*"},
		{"text/plain;note=\"application/json\""},
		{"application/json-seq"},
		{"application/jsonp, text/javascript"},
		{"application/json;q=nonsense"},
		{"application/json;q=2"},
		{"application/json;q=-1"},
		{"application/json;q=NaN"},
		{"application/json;q="},
		{`application/json;note="`},
	} {
		require.False(t, prefersJSON(accept), "%q", accept)
	}
}
