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
	// reread is how many known names are read together.
	reread = 200
	// nodePause is how long a node that failed is left alone.
	nodePause = time.Second
	// nodesFor is how long a list of the nodes of a cluster is believed.
	nodesFor = 10 * time.Second
)

// listedNode is what a List knows of a node. Run alone changes it, what Snapshot reads with the lock held; so Run reads it
// without.
type listedNode struct {
	walk      *walk
	walking   bool
	added     time.Time
	complete  time.Time // when the newest walk began that has ended; zero if none has
	took      time.Duration
	more      int // names beyond mostKept: of the last walk that has ended
	moreSoFar int // and of the walk under way

	pass   []string  // the keys that are still to be read anew
	passed time.Time // when that pass began
	reread time.Time // when the newest pass began that has ended
	turn   bool      // the pass is next, not the walk
	renew  bool      // the node is back: a pass is due

	err   error // why names are missing; nil after a success
	again time.Time
}

// Run keeps the list up to date until ctx ends, and returns why it ended. One Run runs at a time.
func (l *List) Run(ctx context.Context) error {
	switch {
	case l == nil || l.wake == nil:
		return errNoList
	case l.bad != nil:
		return l.failure(l.bad)
	case ctx == nil:
		return l.failure(errNilContext)
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
		wanted := l.wanted(now)
		if wanted && now.Sub(found) > nodesFor {
			l.findNodes(ctx)
			found = time.Now()
			if l.mu.failed != nil {
				found = found.Add(nodePause - nodesFor)
			}
		}
		pause := interest
		if wanted {
			pause = l.step(ctx)
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
	close(l.mu.news)
	l.mu.news = make(chan struct{})
}

func (l *List) wanted(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.mu.asked.IsZero() && now.Sub(l.mu.asked) < interest
}

// findNodes asks which nodes there are. What is known of a node that is gone belongs to another one from then on: its names are
// there, if it was replaced.
func (l *List) findNodes(ctx context.Context) {
	names, err := l.session.Runner.Nodes(ctx)
	if err != nil {
		l.update(func() { l.mu.failed = err })
		return
	}
	now, nodes := time.Now(), make([]*listedNode, 0, len(names))
	heir := names[0]
	for _, name := range names {
		i := slices.IndexFunc(l.mu.nodes, func(n *listedNode) bool { return n.walk.node == name })
		if i >= 0 {
			nodes = append(nodes, l.mu.nodes[i])
			continue
		}
		heir = name
		nodes = append(nodes, &listedNode{walk: newWalk(name, l.view.scans()), added: now})
	}
	l.update(func() {
		l.mu.failed, l.mu.nodes = nil, nodes
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
	asked, expired := l.mu.asked, l.mu.expired
	l.mu.Unlock()
	pause := nodesFor
	var ready *listedNode
	for _, n := range l.mu.nodes {
		at := l.due(n, now, asked, expired)
		if at > 0 {
			pause = min(pause, at)
			continue
		}
		if ready == nil || l.session.Runner.Pace(n.walk.node).Pause() < l.session.Runner.Pace(ready.walk.node).Pause() {
			ready = n
		}
	}
	if ready == nil {
		return max(pause, time.Millisecond)
	}
	ready.turn = !ready.turn
	if len(ready.pass) > 0 && (ready.turn || !ready.walking) {
		l.readAgain(ctx, ready)
		return 0
	}
	err := l.walkOn(ctx, ready)
	if ctx.Err() == nil && !errors.Is(err, errs.ErrClosed) {
		l.settle(ready, err)
	}
	return 0
}

// due begins the walk and the pass of a node if it is time. It returns how long there is nothing to do for the node.
func (l *List) due(n *listedNode, now, asked, expired time.Time) time.Duration {
	if wait := n.again.Sub(now); wait > 0 {
		return wait
	}
	if !n.walking && (n.complete.IsZero() || asked.Sub(n.walk.begun) >= l.every) {
		l.update(func() { n.walk, n.walking, n.moreSoFar = newWalk(n.walk.node, n.walk.scans), true, 0 })
	}
	// A walk that is shorter than every reads all names itself.
	long := n.walking && (now.Sub(n.walk.begun) >= l.every || n.took >= l.every)
	if len(n.pass) == 0 && (long && asked.Sub(n.passed) >= l.every || n.passed.Before(expired) || n.renew) {
		l.beginPass(n, now)
	}
	if !n.walking && len(n.pass) == 0 {
		return nodesFor // the next Snapshot comes before, if there is one
	}
	return max(l.session.Runner.Pace(n.walk.node).Pause(), 0)
}

// beginPass lets all known names of a node be read anew.
func (l *List) beginPass(n *listedNode, now time.Time) {
	l.update(func() {
		for key, k := range l.mu.known {
			if k.node == n.walk.node {
				n.pass = append(n.pass, key)
			}
		}
		if n.passed, n.renew = now, false; len(n.pass) == 0 {
			n.reread = now
		}
	})
}

// settle records the result of a page. The names of a node that fails are not shown.
func (l *List) settle(n *listedNode, err error) {
	if err == nil && n.err == nil {
		return
	}
	l.update(func() {
		if n.err = err; err == nil {
			return
		}
		n.again = time.Now().Add(nodePause)
		n.pass, n.renew = nil, true
		for _, k := range l.mu.known {
			if k.node == n.walk.node {
				k.used, l.mu.shown = false, nil
			}
		}
	})
}

// readAgain reads the next names of a pass.
func (l *List) readAgain(ctx context.Context, n *listedNode) {
	keys := n.pass[:min(reread, len(n.pass))]
	var probes []*probe
	var known []*knownName
	for _, key := range keys {
		k := l.mu.known[key]
		if k == nil {
			continue
		}
		if p := l.view.probe(n.walk.scans[k.scan], key); p != nil {
			probes, known = append(probes, p), append(known, k)
		}
	}
	l.ask(ctx, n, probes)
	l.update(func() {
		for i, p := range probes {
			known[i].take(p)
		}
		if n.pass, l.mu.shown = n.pass[len(keys):], nil; len(n.pass) == 0 {
			n.pass, n.reread = nil, n.passed
		}
	})
}

// walkOn reads the next page of a walk.
func (l *List) walkOn(ctx context.Context, n *listedNode) error {
	w := *n.walk // snapshots read the other one
	at := w.scan
	scan, keys, err := w.page(ctx, l.session)
	if err != nil {
		return err
	}
	var probes []*probe
	for _, key := range keys {
		if p := l.view.probe(scan, key); p != nil {
			probes = append(probes, p)
		}
	}
	l.ask(ctx, n, probes)
	l.update(func() {
		*n.walk = w
		for _, p := range probes {
			l.keepLocked(n, at, p)
		}
		if w.over() {
			l.endLocked(n)
		}
	})
	return nil
}

// ask resolves probes, in bounded time.
func (l *List) ask(ctx context.Context, n *listedNode, probes []*probe) {
	ctx, cancel := errs.WithTimeout(ctx, batchPatience)
	defer cancel()
	resolve(ctx, l.session, n.walk.node, probes)
}

// take notes how a name was found at a reading.
func (k *knownName) take(p *probe) {
	p.entry.keep(brief)
	k.entry, k.used, k.err = p.entry, p.used && p.err == nil, p.err
}

// keepLocked keeps what a walk has found. A name that could not be read is kept too: the next pass reads it.
func (l *List) keepLocked(n *listedNode, scan int, p *probe) {
	if !p.used && p.err == nil {
		return
	}
	k := l.mu.known[p.entry.Key]
	if k == nil && len(l.mu.known) >= mostKept {
		n.moreSoFar++
		return
	}
	if k == nil {
		k = new(knownName)
		l.mu.known[p.entry.Key] = k
	}
	k.take(p)
	k.node, k.scan, k.found, l.mu.shown = n.walk.node, scan, n.walk.begun, nil
}

// endLocked ends a walk. It forgets the names that the walk has not found, unless a pass has read them in use since it began.
func (l *List) endLocked(n *listedNode) {
	n.walking, n.complete, n.took = false, n.walk.begun, time.Since(n.walk.begun)
	n.more, n.moreSoFar = n.moreSoFar, 0
	for key, k := range l.mu.known {
		if k.node == n.walk.node && k.found.Before(n.walk.begun) && (!k.used || n.reread.Before(n.walk.begun)) {
			delete(l.mu.known, key)
			l.mu.shown = nil
		}
	}
}
