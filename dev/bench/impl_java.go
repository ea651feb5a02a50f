// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
)

// javaPairing is one kind of lock, here and there. One of impl and kind says how it is measured.
type javaPairing struct {
	implementation

	kind string // the name of the kind in the Java program; "" for a lock of this project
}

// pairings are the locks that are compared across the languages: each kind of Redisson's behind its own.
func pairings() []javaPairing {
	return []javaPairing{
		{signalboxLock(), ""},
		{ours("signalbox in Redisson's layout", func(s *signalbox.Session, name string) ownLock {
			return reentrant.New(s, name, signalbox.WithLayout(redisson.Layout()))
		}), ""},
		javaKind("Redisson RLock", "lock"),
		{ours(fairName, func(s *signalbox.Session, name string) ownLock { return fair.New(s, name) }), ""},
		javaKind("Redisson fair lock", "fair"),
		{writer(), ""},
		javaKind("Redisson RReadWriteLock, writing", "write"),
		{ownReader(), ""},
		javaKind("Redisson RReadWriteLock, reading", "read"),
	}
}

// javaKind returns a kind of lock of the Java program. No process of it is started here.
func javaKind(name, kind string) javaPairing {
	return javaPairing{implementation{name: name, excludes: true}, kind}
}

// isReader reports whether others have the lock beside it, so that it is never handed over.
func (p javaPairing) isReader() bool { return p.kind == "read" || p.name == ownReader().name }

// implementationsOf returns them as interleave takes them.
func implementationsOf(all []javaPairing) []implementation {
	var impls []implementation
	for _, p := range all {
		impls = append(impls, p.implementation)
	}
	return impls
}

// oneName is a crew of one goroutine that wants one lock.
func oneName() topology {
	return topology{1, 1, func(ctx context.Context, p process, _ int) locker { return p.locker(ctx, "again") }}
}
