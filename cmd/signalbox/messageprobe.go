// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// messageTimeout is how long a message may take.
const messageTimeout = 5 * time.Second

// messageProbe has the commands with which sessions receive and publish messages at a node.
type messageProbe struct{ subscribe, publish string }

func (n *node) messageProbe() messageProbe {
	if n.sharded {
		return messageProbe{"SSUBSCRIBE", "SPUBLISH"}
	}
	return messageProbe{"SUBSCRIBE", "PUBLISH"}
}

// checkMessages subscribes to a channel, lets a script publish there, and waits for the message.
func (e *examination) checkMessages(ctx context.Context, n *node) finding {
	warning := func(found, advice string) finding {
		return finding{Check: "messages", Status: statusWarning, Found: found, Advice: advice}
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	probe := n.messageProbe()
	listener, _ := n.client.Dedicate()
	defer listener.Close() // a release would send commands that need rights
	arrived := make(chan struct{}, 1)
	listener.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}})
	if err := n.subscribe(ctx, listener); err != nil {
		advice := "see what stands between this host and the server"
		if troubleOf(wordsOf(err)) != nil {
			advice = adviceFor(err, "")
		}
		switch parseRefusal(wordsOf(err)) {
		case refusedCommand:
			advice = fmt.Sprintf("ACL SETUSER %s +%s", e.user, strings.ToLower(probe.subscribe))
		case refusedChannel:
			advice = fmt.Sprintf("ACL SETUSER %s &%s*", e.user, e.prefix)
		case notRefused, refusedKey, refusedUnknown:
		}
		return warning("no subscription, so waiters poll ten times a second: "+err.Error(), advice)
	}
	script := "return redis.call('" + probe.publish + "', ARGV[1], 'x')"
	call := n.client.B().Eval().Script(script).Numkeys(1).Key(n.key).Arg(n.channel()).Build()
	if err := n.client.Do(ctx, call).Error(); err != nil {
		return warning("a script cannot publish, so waiters poll: "+err.Error(), adviceFor(err, "grant the rights that are missing"))
	}
	select {
	case <-arrived:
		return finding{Check: "messages", Status: statusOK, Found: "a message that a script published arrived (" + probe.publish + ")"}
	case <-ctx.Done():
		return warning(fmt.Sprintf("no message arrived within %s, so waiters poll about once a second", messageTimeout),
			"see what stands between this host and the server: a proxy may forward no messages")
	}
}

func (n *node) subscribe(ctx context.Context, listener rueidis.DedicatedClient) error {
	if n.sharded {
		return listener.Do(ctx, n.client.B().Ssubscribe().Channel(n.channel()).Build()).Error()
	}
	return listener.Do(ctx, n.client.B().Subscribe().Channel(n.channel()).Build()).Error()
}
