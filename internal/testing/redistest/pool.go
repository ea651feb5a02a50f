// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/redis/rueidis"
)

// PooledServer is a server whose Do and MustDo share a connection, for tests that send thousands of commands. Unlike
// [Server.Do] they must not be used for commands that change their connection.
type PooledServer struct {
	*Server

	client rueidis.Client
}

// Pool returns the server with a connection, which is kept until Close.
func Pool(s *Server) *PooledServer {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, ForceSingleClient: true, AlwaysRESP2: true, DisableCache: true, DisableRetry: true,
		ConnWriteTimeout: Patience, Dialer: net.Dialer{Timeout: Patience}, ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	if err != nil {
		panic(fmt.Sprintf("redistest: %s: %v", s.Addr(), err)) // it has just started
	}
	return &PooledServer{s, client}
}

// Close closes the connection, and leaves the server alone.
func (p *PooledServer) Close() {
	if p != nil {
		p.client.Close()
	}
}

// Do is Server.Do over the connection that is kept.
func (p *PooledServer) Do(args ...any) (any, error) {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = string(word(arg))
	}
	reply, err := p.client.Do(context.Background(), p.client.B().Arbitrary(words...).Build()).ToAny()
	var refusal *rueidis.RedisError
	switch {
	case rueidis.IsRedisNil(err):
		return nil, nil
	case errors.As(err, &refusal):
		return nil, ReplyError(refusal.Error())
	case err != nil:
		return nil, fmt.Errorf("redistest: %v: %w", args[0], err)
	}
	return reply, nil
}

// MustDo is Do that fails the test if there is an error.
func (p *PooledServer) MustDo(tb testing.TB, args ...any) any {
	tb.Helper()
	reply, err := p.Do(args...)
	if err != nil {
		tb.Fatalf("%v: %v", args, err)
	}
	return reply
}
