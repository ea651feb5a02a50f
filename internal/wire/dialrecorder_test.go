// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// Of several addresses the client tries all at once: the one that is away may be the last to fail, while another has replied.
func TestAnErrorNamesTheHostThatReplied(t *testing.T) {
	t.Parallel()
	away := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	refused := &credentialsError{errors.New("refused")}
	for _, order := range [][]*dialAttempt{
		{{address: "up:1"}, {address: "away:1", err: away}},
		{{address: "away:1", err: away}, {address: "up:1"}},
		{{address: "up:1", err: refused}, {address: "away:1", err: away}},
	} {
		r := NewDialRecorder(&rueidis.ClientOption{InitAddress: []string{"up:1", "away:1"}})
		for _, a := range order {
			r.add(a)
		}
		require.EqualError(t, r.Explain(t.Context(), refused), "the server up:1: refused")
	}
}
