// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bufio"
	"context"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// receive returns what is published on channels from now on: "channel message", in order.
func receive(t *testing.T, server *redistest.Server, channels ...string) <-chan string {
	t.Helper()
	client, release := server.Client(t, nil).Dedicate()
	t.Cleanup(release)
	published := make(chan string, 1024)
	client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { published <- m.Channel + " " + m.Message },
	})
	require.NoError(t, client.Do(context.Background(), client.B().Subscribe().Channel(channels...).Build()).Error())
	return published
}

// next returns the next message.
func next(t *testing.T, published <-chan string) string {
	t.Helper()
	select {
	case message := <-published:
		return message
	case <-locktest.Context(t).Done():
		require.FailNow(t, "no message")
	}
	return ""
}

// commands are what a server was asked, by its own account.
type commands struct {
	mu struct {
		sync.Mutex
		lines []string
	}
}

// monitor listens to all commands of a server from now on, those of scripts among them.
func monitor(t *testing.T, server *redistest.Server) *commands {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(locktest.Context(t), "tcp", server.Addr())
	require.NoError(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	first, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", first)
	c, ended := new(commands), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			c.mu.Lock()
			c.mu.lines = append(c.mu.lines, strings.TrimSpace(line))
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-ended
	})
	return c
}

// matches reports whether there was a command that the expression describes.
func (c *commands) matches(expression string) bool { return c.count(expression) > 0 }

// count returns how many there were.
func (c *commands) count(expression string) int {
	wanted := regexp.MustCompile(expression)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, line := range c.mu.lines {
		if wanted.MatchString(line) {
			n++
		}
	}
	return n
}
