// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// implementation is one of the things that are compared.
type implementation struct {
	name  string
	start func(setup) (process, error)
	// excludes is false for the limit: it costs what a lock costs at the least, but excludes no other holder.
	excludes bool
	// sends names commands that the client sends by themselves and that scripts call as
	// well; see usage.requests.
	sends []string
}

// setup is what all processes of a work start from.
type setup struct {
	addr  string
	addrs []string // the addresses for locks over several servers
	lease time.Duration
	// lean makes clients with small buffers, for works with a hundred of them.
	lean bool
}

// process is what one process would have of an implementation: a client, and what it needs
// besides.
type process interface {
	// locker returns a handle on the lock name, for one goroutine. ctx bounds its unlocks,
	// if the implementation takes a context for that.
	locker(ctx context.Context, name string) locker
	close() error
}

// locker is a handle on one lock, for one goroutine.
type locker interface {
	// Lock waits for the lock, and returns how to release it.
	Lock(ctx context.Context) (unlock func() error, err error)
}

// holder is a process whose locks are renewed while they are held.
type holder interface {
	process
	// keeper returns room for n locks.
	keeper(n int) keeper
}

// keeper acquires locks and keeps of each what a program needs to release it, and no more,
// so that the memory of a held lock can be measured. Each i is for one goroutine.
type keeper interface {
	keep(ctx context.Context, i int, name string) error
	// lost returns how many of the locks have been lost, as their holder notices.
	lost() int
	drop(i int) error
}

func implementations() []implementation {
	return []implementation{limit(), signalboxLock(), signalboxFair(), rueidisLock(), redsyncLock(), redisLock()}
}

const (
	limitName = "limit"
	ownName   = "signalbox"
	keptName  = "signalbox kept"
	fairName  = "signalbox fair"
)

// selected returns the implementations of a list of names; all of them for "".
func selected(list string) ([]implementation, error) {
	all := implementations()
	if list == "" {
		return all, nil
	}
	var chosen []implementation
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(impl implementation) bool { return impl.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no implementation is called %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// locks leaves the limit out.
func locks(all []implementation) []implementation {
	return slices.DeleteFunc(slices.Clone(all), func(impl implementation) bool { return !impl.excludes })
}

// only keeps the implementations of these names.
func only(all []implementation, names ...string) []implementation {
	return slices.DeleteFunc(slices.Clone(all), func(impl implementation) bool { return !slices.Contains(names, impl.name) })
}
