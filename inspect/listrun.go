// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// rereadBatch is how many known names are read together.
	rereadBatch = 200
	// nodePause is how long a node that failed is left alone.
	nodePause = time.Second
	// nodesValidFor is how long a list of a cluster's nodes is used before the nodes are listed again.
	nodesValidFor = 10 * time.Second
)

// nodeProgress is the state of a List for one node. Only Run changes it, and holds the lock for what Snapshot reads. So Run
// reads it without the lock.
type nodeProgress struct {
	scan          *keyScan // the scan under way, or the last one
	scanning      bool     // reports that scan is under way
	added         time.Time
	completeSince time.Time // the start of the last complete scan; zero if there was none
	took          time.Duration
	more          int // the names beyond maxKept in the last complete scan
	moreSoFar     int // the names beyond maxKept in the scan under way

	toReread    []string  // the keys that are still to be read again
	rereadBegun time.Time // the start of the reread under way, or of the last one
	rereadSince time.Time // the start of the last complete reread
	rereadsNext bool      // reports that the reread has the next turn, and not the scan
	recovered   bool      // reports that the node replies again, so a reread is due

	err     error // the reason why names are missing; nil after a success
	retryAt time.Time
}

// Run keeps the list up to date until ctx ends, and returns why it ended. One Run runs at a time.
func (l *List) Run(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	running := l.mu.running
	l.mu.running, l.mu.ended = true, false
	l.mu.Unlock()
	if running {
		return l.failure(errRunning)
	}
	defer l.update(func() { l.mu.running, l.mu.ended = false, true })
	var found time.Time // when the nodes were found
	for {
		if err := l.session.Ready(); err != nil {
			return l.failure(err)
		}
		now := time.Now()
		wanted := l.isWanted(now)
		if wanted && now.Sub(found) > nodesValidFor {
			l.findNodes(ctx)
			found = time.Now()
			if l.mu.nodesErr != nil {
				found = found.Add(nodePause - nodesValidFor)
			}
		}
		pause := idleAfter
		if wanted {
			if pause = l.step(ctx); l.mu.nodesErr != nil { // which this goroutine alone writes
				pause = min(pause, nodePause)
			}
		}
		if pause > 0 && !wire.Sleep(ctx, pause, l.wake) || ctx.Err() != nil {
			return l.failure(errs.Ended(ctx))
		}
	}
}

// update changes what is shared, and notifies the snapshots that wait.
func (l *List) update(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	close(l.mu.changed)
	l.mu.changed = make(chan struct{})
}

func (l *List) isWanted(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.requestedAt.IsZero() && now.Sub(l.mu.requestedAt) < idleAfter
}

// findNodes asks which nodes there are. What is known of a node that is gone belongs to another one from then on: its names are
// there, if it was replaced.
func (l *List) findNodes(ctx context.Context) {
	names, err := l.session.Runner.Nodes(ctx)
	if err != nil {
		l.update(func() { l.mu.nodesErr = err })
		return
	}
	now, nodes := time.Now(), make([]*nodeProgress, 0, len(names))
	heir := names[0]
	for _, name := range names {
		i := slices.IndexFunc(l.mu.nodes, func(n *nodeProgress) bool { return n.scan.node == name })
		if i >= 0 {
			nodes = append(nodes, l.mu.nodes[i])
			continue
		}
		heir = name
		nodes = append(nodes, &nodeProgress{scan: newKeyScan(name, l.lister.scans()), added: now})
	}
	l.update(func() {
		l.mu.nodesErr, l.mu.nodes = nil, nodes
		for _, k := range l.mu.known {
			if !slices.Contains(names, k.node) {
				k.node = heir
			}
		}
	})
}

// step does the next piece of work, or returns how long there is nothing to do.
func (l *List) step(ctx context.Context) time.Duration {
	now := time.Now()
	l.mu.Lock()
	requested, expired := l.mu.requestedAt, l.mu.expiredAt
	l.mu.Unlock()
	pause := nodesValidFor
	var ready *nodeProgress
	for _, n := range l.mu.nodes {
		at := l.beginDue(n, now, requested, expired)
		if at > 0 {
			pause = min(pause, at)
			continue
		}
		if ready == nil || l.session.Runner.Pace(n.scan.node).Pause() < l.session.Runner.Pace(ready.scan.node).Pause() {
			ready = n
		}
	}
	if ready == nil {
		return max(pause, time.Millisecond)
	}
	ready.rereadsNext = !ready.rereadsNext
	if len(ready.toReread) > 0 && (ready.rereadsNext || !ready.scanning) {
		l.rereadNext(ctx, ready)
		return 0
	}
	err := l.scanNext(ctx, ready)
	if ctx.Err() == nil && !errors.Is(err, errs.ErrClosed) {
		l.recordResult(ready, err)
	}
	return 0
}

// beginDue begins the scan and the reread of a node if they are due. It returns how long there is nothing to do for the node.
func (l *List) beginDue(n *nodeProgress, now, requested, expired time.Time) time.Duration {
	if wait := n.retryAt.Sub(now); wait > 0 {
		return wait
	}
	if !n.scanning && (n.completeSince.IsZero() || requested.Sub(n.scan.begun) >= l.every) {
		l.update(func() { n.scan, n.scanning, n.moreSoFar = newKeyScan(n.scan.node, n.scan.scans), true, 0 })
	}
	// A scan that takes less time than every reads all names itself.
	long := n.scanning && (now.Sub(n.scan.begun) >= l.every || n.took >= l.every)
	if len(n.toReread) == 0 && (long && requested.Sub(n.rereadBegun) >= l.every || n.rereadBegun.Before(expired) || n.recovered) {
		l.beginReread(n, now)
	}
	if !n.scanning && len(n.toReread) == 0 {
		return nodesValidFor // the next Snapshot comes before, if there is one
	}
	return max(l.session.Runner.Pace(n.scan.node).Pause(), 0)
}

// beginReread lets all known names of a node be read anew.
func (l *List) beginReread(n *nodeProgress, now time.Time) {
	l.update(func() {
		for key, k := range l.mu.known {
			if k.node == n.scan.node {
				n.toReread = append(n.toReread, key)
			}
		}
		if n.rereadBegun, n.recovered = now, false; len(n.toReread) == 0 {
			n.rereadSince = now
		}
	})
}

// recordResult records the result of a page. The names of a node that fails are not shown.
func (l *List) recordResult(n *nodeProgress, err error) {
	if err == nil && n.err == nil {
		return
	}
	l.update(func() {
		if n.err = err; err == nil {
			return
		}
		n.retryAt = time.Now().Add(nodePause)
		n.toReread, n.recovered = nil, true
		for _, k := range l.mu.known {
			if k.node == n.scan.node {
				k.inUse, l.mu.entries = false, nil
			}
		}
	})
}

// rereadNext reads the next names of a pass.
func (l *List) rereadNext(ctx context.Context, n *nodeProgress) {
	keys := n.toReread[:min(rereadBatch, len(n.toReread))]
	var inspections []*keyInspection
	var known []*knownName
	for _, key := range keys {
		k := l.mu.known[key]
		if k == nil {
			continue
		}
		if ki := l.lister.ofKey(n.scan.scans[k.scan], key); ki != nil {
			inspections, known = append(inspections, ki), append(known, k)
		}
	}
	l.resolve(ctx, n, inspections)
	l.update(func() {
		for i, ki := range inspections {
			known[i].update(ki)
		}
		if n.toReread, l.mu.entries = n.toReread[len(keys):], nil; len(n.toReread) == 0 {
			n.toReread, n.rereadSince = nil, n.rereadBegun
		}
	})
}

// scanNext reads the next page of a scan.
func (l *List) scanNext(ctx context.Context, n *nodeProgress) error {
	w := *n.scan // snapshots read the other one
	at := w.current
	scan, keys, err := w.nextPage(ctx, l.session)
	if err != nil {
		return err
	}
	var inspections []*keyInspection
	for _, key := range keys {
		if ki := inspectionOf(l.lister, scan, key); ki != nil {
			inspections = append(inspections, ki)
		}
	}
	l.resolve(ctx, n, inspections)
	l.update(func() {
		*n.scan = w
		for _, ki := range inspections {
			l.storeLocked(n, at, ki)
		}
		if w.isDone() {
			l.endScanLocked(n)
		}
	})
	return nil
}

// resolve resolves inspections, in bounded time.
func (l *List) resolve(ctx context.Context, n *nodeProgress, inspections []*keyInspection) {
	ctx, cancel := errs.WithTimeout(ctx, batchTimeout)
	defer cancel()
	resolve(ctx, l.session, n.scan.node, inspections)
}

// update notes how a name was found at a reading.
func (k *knownName) update(ki *keyInspection) {
	k.entry, k.inUse, k.err = ki.entry(maxShown), ki.InUse && ki.Err == nil, ki.Err
}

// storeLocked keeps a name that a scan has found. A name that could not be read is kept too: the next reread reads it.
func (l *List) storeLocked(n *nodeProgress, scan int, ki *keyInspection) {
	if !ki.InUse && ki.Err == nil {
		return
	}
	k := l.mu.known[ki.Key]
	if k == nil && len(l.mu.known) >= maxKept {
		n.moreSoFar++
		return
	}
	if k == nil {
		k = new(knownName)
		l.mu.known[ki.Key] = k
	}
	k.update(ki)
	k.node, k.scan, k.found, l.mu.entries = n.scan.node, scan, n.scan.begun, nil
}

// endScanLocked ends a scan. It forgets the names that the scan has not found, unless a reread has read them in use
// since it began.
func (l *List) endScanLocked(n *nodeProgress) {
	n.scanning, n.completeSince, n.took = false, n.scan.begun, time.Since(n.scan.begun)
	n.more, n.moreSoFar = n.moreSoFar, 0
	for key, k := range l.mu.known {
		if k.node == n.scan.node && k.found.Before(n.scan.begun) && (!k.inUse || n.rereadSince.Before(n.scan.begun)) {
			delete(l.mu.known, key)
			l.mu.entries = nil
		}
	}
}
