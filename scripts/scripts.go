// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed */*.lua parts/*/*.lua
var files embed.FS

// digests has a line "name vN digest size" for each script. The digests are embedded, and not
// computed, because Go refuses to compute a SHA-1 under GODEBUG=fips140=only. A test compares them
// with the texts.
//
//go:embed testdata/digests.txt
var digests string

// Script is one version of one script.
type Script struct {
	// Name is the path without version and ending: "lock/enter".
	Name string
	// Version counts from 1.
	Version int
	// Source is the text of the file, with its parts in place of the lines that include them: what
	// EVAL sends.
	Source string
	// SHA1 is the digest of Source in hexadecimal: what EVALSHA sends.
	SHA1 string
}

// The scripts that the library sends, for itself: programs use All and Load. A retired version stays in its folder, and in All.
//
//nolint:gochecknoglobals // constants in all but name: read from the embedded files once
var (
	SessionHello      = load("session/hello", 1)
	SessionRewrite    = load("session/rewrite", 1)
	SessionProbeSlots = load("session/probe-slots", 1)
	SessionReadString = load("session/read-string", 1)

	HolderDescribe = load("holder/describe", 1)
	HolderForce    = load("holder/force", 1)
	HolderRenew    = load("holder/renew", 1)

	HoldsRenew = load("holds/renew", 1)
	HoldsDrop  = load("holds/drop", 1)
	HoldsList  = load("holds/list", 1)

	QueueHeartbeat = load("queue/heartbeat", 1)

	LockEnter       = load("lock/enter", 1)
	LockPoll        = load("lock/poll", 1)
	LockHeartbeat   = load("lock/heartbeat", 1)
	LockKeep        = load("lock/keep", 1)
	LockLeave       = load("lock/leave", 1)
	LockFree        = load("lock/free", 1)
	LockRequeue     = load("lock/requeue", 1)
	LockForce       = load("lock/force", 1)
	LockWaiters     = load("lock/waiters", 1)
	LockAcquireMany = load("lock/acquire-many", 1)
	LockReleaseMany = load("lock/release-many", 1)

	RWLockEnter     = load("rwlock/enter", 1)
	RWLockPoll      = load("rwlock/poll", 1)
	RWLockLeave     = load("rwlock/leave", 1)
	RWLockForce     = load("rwlock/force", 1)
	RWLockDowngrade = load("rwlock/downgrade", 1)
	RWLockMayShare  = load("rwlock/may-share", 1)

	SemaphoreEnter     = load("semaphore/enter", 1)
	SemaphorePoll      = load("semaphore/poll", 1)
	SemaphoreLeave     = load("semaphore/leave", 1)
	SemaphoreYield     = load("semaphore/yield", 1)
	SemaphoreSplit     = load("semaphore/split", 1)
	SemaphoreResize    = load("semaphore/resize", 1)
	SemaphoreAvailable = load("semaphore/available", 1)

	CountdownStart = load("countdown/start", 1)
	CountdownCount = load("countdown/count", 1)
	CountdownRead  = load("countdown/read", 1)
	CountdownReset = load("countdown/reset", 1)

	ElectionPut       = load("election/put", 1)
	ElectionClear     = load("election/clear", 1)
	ElectionRead      = load("election/read", 1)
	ElectionMove      = load("election/move", 1)
	ElectionRequested = load("election/requested", 1)

	ShardsJoin    = load("shards/join", 1)
	ShardsPoll    = load("shards/poll", 1)
	ShardsRelease = load("shards/release", 1)
	ShardsLeave   = load("shards/leave", 1)
	ShardsRead    = load("shards/read", 1)
	ShardsSet     = load("shards/set", 1)
	ShardsMove    = load("shards/move", 1)
	ShardsResize  = load("shards/resize", 1)
	ShardsSync    = load("shards/sync", 1)
	ShardsList    = load("shards/list", 1)
	ShardsEnd     = load("shards/end", 1)

	OnceRead   = load("once/read", 1)
	OnceStore  = load("once/store", 1)
	OnceForget = load("once/forget", 1)

	RedlockAcquire = load("redlock/acquire", 1)
	RedlockRelease = load("redlock/release", 1)
	RedlockPoll    = load("redlock/poll", 1)
	RedlockFence   = load("redlock/fence", 1)
	RedlockHeal    = load("redlock/heal", 1)
)

// All returns every script in the module, retired versions included, ordered by name and version.
func All() ([]*Script, error) {
	paths, err := fs.Glob(files, "*/*.lua")
	if err != nil {
		return nil, fmt.Errorf("scripts: %w", err)
	}
	all := make([]*Script, 0, len(paths))
	for _, path := range paths {
		name, rest, _ := strings.Cut(path, ".v")
		version, err := strconv.Atoi(strings.TrimSuffix(rest, ".lua"))
		if err != nil {
			return nil, fmt.Errorf("scripts: %s is not named <primitive>/<verb>.v<N>.lua: %w", path, err)
		}
		all = append(all, load(name, version))
	}
	slices.SortFunc(all, func(a, b *Script) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Version, b.Version))
	})
	return all, nil
}

// Load returns a version of a script by its name, such as "lock/enter". The packages of layouts of others load theirs by it:
// these have no variable here. It returns nil if there is no such script.
func Load(name string, version int) *Script {
	if _, err := fs.Stat(files, scriptPath(name, version)); err != nil {
		return nil
	}
	return load(name, version)
}

func scriptPath(name string, version int) string { return fmt.Sprintf("%s.v%d.lua", name, version) }

func load(name string, version int) *Script {
	source := compose(readFile(scriptPath(name, version)))
	return &Script{Name: name, Version: version, Source: source, SHA1: digestOf(name, version)}
}

// readFile panics for a file that is not embedded: that is a mistake in this folder, and the first
// test finds it.
func readFile(path string) string {
	text, err := files.ReadFile(path)
	if err != nil {
		panic(err) //nolint:forbidigo // see above
	}
	return string(text)
}

// digestOf returns the digest of a script, or "" if it has no line. A script without a digest still
// works: no server knows "", so each call is sent with the text.
func digestOf(name string, version int) string {
	script := fmt.Sprintf("%s v%d ", name, version)
	for line := range strings.Lines(digests) {
		if rest, found := strings.CutPrefix(line, script); found {
			digest, _, _ := strings.Cut(rest, " ")
			return digest
		}
	}
	return ""
}
