// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/session"
)

// The limits of a List.
const (
	// maxKept is how many names a List keeps: some 100 MB.
	maxKept = 100_000
	// idleAfter is how long a List keeps looking for names after it was last asked.
	idleAfter = 5 * time.Minute
	// snapshotTimeout is how long Snapshot waits for a list that is fresh.
	snapshotTimeout = 2 * time.Second
)

// List is a list of the names in use that is kept up to date, for pages, metrics and live views. It takes at most a tenth of the
// server's time, beside any number of other keys. NewList makes one.
//
// It finds names by going through all keys of the server, in rounds that last about 10 s for each million keys. The names that it
// has found are read anew each time that it is asked. So their holders and waiters are fresh, while a new name appears when a
// round meets it. It works only while it is asked: five minutes after the last Snapshot it sends nothing.
//
// It keeps at most 100,000 names, and counts those beyond.
type List struct {
	session   *session.Session
	prefix    string
	every     time.Duration
	lister    lister
	badOption error // the error of NewList, or nil

	wake chan struct{} // wakes Run, so that it checks what is due

	mu struct {
		sync.Mutex
		running     bool
		ended       bool            // reports that Run has ended; Snapshot waits for a Run that has not begun
		requestedAt time.Time       // the time of the last Snapshot
		expiredAt   time.Time       // the time of the last Expire
		changed     chan struct{}   // closed at the next change
		nodes       []*nodeProgress // only Run changes them
		nodesErr    error           // the reason why the nodes could not be listed, or nil
		known       map[string]*knownName
		entries     []Entry // the known names in use, sorted; nil after a change
		entryErr    error   // the reason why a name is not among entries, or nil; updated with entries
	}
}

// knownName is a name that was found in use. It is kept until a round ends that has not found it in use.
type knownName struct {
	entry Entry
	node  string
	scan  int       // the index of the scan that found the name
	found time.Time // the start of the last scan that found the name
	inUse bool      // reports that the name was in use when it was last read
	err   error     // the error of the last read, or nil
}

// Snapshot is what a List knew at one moment.
type Snapshot struct {
	// Entries are the names in use, sorted by Name and Kind. Do not change them.
	Entries []Entry
	// More is how many names in use are not among Entries, since there are too many.
	More int
	// At is when the snapshot was made.
	At time.Time
	// Age says how late a new name appears: every name that has been in use for longer is among Entries. Without a complete
	// round it is how long the List has scanned.
	Age time.Duration
	// Complete reports whether a round of every node has ended.
	Complete bool
	// Took is how long the last round lasted; 0 before the first has ended.
	Took time.Duration
	// Examined and Keys are how many keys the rounds under way have examined, and how many there are, both about. Keys is 0 if
	// it is not known.
	Examined, Keys int64
	// Err is why names are missing, besides Age: a node that is away, a right that is missing.
	Err error
}

// NewList returns a List of the names that begin with prefix. Entries are read anew if they are older than every, of 100 ms at
// least. It works while Run runs. Errors, such as those of a session that is closed, are those of Run and of Snapshot.
func NewList(s *signalbox.Session, prefix string, every time.Duration) *List {
	l := &List{session: (*session.Handle)(s).Session(), prefix: prefix, every: every, wake: make(chan struct{}, 1)}
	l.mu.changed = make(chan struct{})
	l.mu.known = make(map[string]*knownName)
	if l.badOption = checkList(l.session, prefix); l.badOption != nil {
		return l
	}
	if every < 100*time.Millisecond {
		l.badOption = fmt.Errorf("%w: every is %v: it must be 100ms or more", errs.ErrBadOption, every)
		return l
	}
	l.lister = listerOf(l.session, prefix, maxShown)
	return l
}

// The errors of a List that is not used as it must be.
var (
	errNoList  = fmt.Errorf("%w: the list is nil or was not made by NewList", errs.ErrBadOption)
	errRunning = fmt.Errorf("%w: Run is running already", errs.ErrBadOption)
	errNotRun  = fmt.Errorf("%w: Run is not running", errs.ErrBadOption)
)

// Snapshot returns what the list knows. It waits until Run runs and the entries are fresh, for two seconds at most, or until ctx
// ends. Any number of callers cost the server no more than one.
func (l *List) Snapshot(ctx context.Context) Snapshot {
	if err := l.check(ctx); err != nil {
		return Snapshot{At: time.Now(), Err: err}
	}
	requested := time.Now()
	timeout := time.NewTimer(snapshotTimeout)
	defer timeout.Stop()
	for waiting := true; waiting; {
		l.mu.Lock()
		l.mu.requestedAt = requested
		changed, fresh := l.mu.changed, l.freshLocked(requested.Add(-l.every)) || l.mu.ended
		l.mu.Unlock()
		if fresh {
			break
		}
		l.wakeRun()
		select {
		case <-changed:
		case <-timeout.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.snapshotLocked()
}

// Invalidate lets the next Snapshot wait for entries that are read after this moment, as after Break: also for a Run that begins after it.
func (l *List) Invalidate() {
	if l == nil || l.wake == nil {
		return
	}
	l.mu.Lock()
	l.mu.expiredAt, l.mu.ended = time.Now(), false
	l.mu.Unlock()
	l.wakeRun()
}

// wakeRun lets Run check what is due.
func (l *List) wakeRun() {
	select {
	case l.wake <- struct{}{}:
	default: // it will check anyway
	}
}

// check returns what is wrong with the list or with ctx, or nil.
func (l *List) check(ctx context.Context) error {
	switch {
	case l == nil || l.wake == nil:
		return errNoList
	case l.badOption != nil:
		return l.failure(l.badOption)
	case ctx == nil:
		return l.failure(errNilContext)
	}
	return nil
}

func (l *List) failure(err error) error {
	return &signalbox.OpError{Op: "list", Name: l.prefix, Err: err}
}

// freshLocked reports whether nothing that the list knows was read before since. A node that fails is not waited for.
func (l *List) freshLocked(since time.Time) bool {
	if l.mu.expiredAt.After(since) {
		since = l.mu.expiredAt
	}
	if l.mu.nodesErr != nil {
		return true
	}
	for _, n := range l.mu.nodes {
		if n.err == nil && n.completeSince.Before(since) && n.rereadSince.Before(since) {
			return false
		}
	}
	return len(l.mu.nodes) > 0
}

func (l *List) snapshotLocked() Snapshot {
	now := time.Now()
	s := Snapshot{At: now, Complete: len(l.mu.nodes) > 0}
	var failures []error
	if l.mu.nodesErr != nil {
		failures = append(failures, l.mu.nodesErr)
	}
	for _, n := range l.mu.nodes {
		whole := n.completeSince
		if whole.IsZero() {
			whole, s.Complete = n.added, false
		}
		s.Age, s.Took = max(s.Age, now.Sub(whole)), max(s.Took, n.took)
		s.Examined, s.Keys = s.Examined+n.scan.examined, s.Keys+n.scan.total()
		s.More += max(n.more, n.moreSoFar)
		if n.err != nil {
			failures = append(failures, nodeError(n.scan.node, n.err))
		}
	}
	if !l.mu.running {
		failures = append(failures, errNotRun)
	}
	l.makeEntriesLocked()
	s.Entries = l.mu.entries
	if l.mu.entryErr != nil {
		failures = append(failures, l.mu.entryErr)
	}
	if len(failures) > 0 {
		s.Err = l.failure(errs.Join(failures...))
	}
	return s
}

// makeEntriesLocked sorts the names in use. Snapshots share the slice, so it is made anew for each change.
func (l *List) makeEntriesLocked() {
	if l.mu.entries != nil {
		return
	}
	shown := make([]Entry, 0, len(l.mu.known))
	l.mu.entryErr = nil
	for _, k := range l.mu.known {
		if k.inUse {
			shown = append(shown, k.entry)
		}
		if k.err != nil {
			l.mu.entryErr = k.err
		}
	}
	slices.SortFunc(shown, func(a, b Entry) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) })
	l.mu.entries = shown
}
