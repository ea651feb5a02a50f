// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// scanCount is how many keys the server examines for one page, in a quarter of a millisecond to one.
const scanCount = 500

// batchTimeout is how long the pipelines of a page may take.
const batchTimeout = 5 * time.Second

// keyScan goes through all keys of one node, a page at a time. One goroutine uses it.
type keyScan struct {
	node  string
	scans []wire.Scan

	current  int         // the index of the one under way
	cursor   wire.Cursor // how far that has come
	begun    time.Time
	examined int64 // keys so far, of all scans
	size     int64 // how many keys the node had at the beginning; 0 if that is not known
}

func newKeyScan(node string, scans []wire.Scan) *keyScan {
	return &keyScan{node: node, scans: scans, begun: time.Now()}
}

// isDone reports whether every key was examined.
func (w *keyScan) isDone() bool { return w.current == len(w.scans) }

// total returns how many keys the walk examines in all; 0 if that is not known.
func (w *keyScan) total() int64 { return w.size * int64(len(w.scans)) }

// nextPage returns the next page, and the scan that it is of. After an error the same page can be asked for again. If another server
// replies than before, as after a failover, the walk begins anew.
func (w *keyScan) nextPage(ctx context.Context, s *session.Session) (scan wire.Scan, keys []string, err error) {
	scan = w.scans[w.current]
	scan.Count = scanCount
	page, err := s.Runner.Page(ctx, w.node, scan, w.cursor)
	switch {
	case errors.Is(err, wire.ErrOtherServer):
		*w = *newKeyScan(w.node, w.scans)
		return scan, nil, nil
	case err != nil:
		return scan, nil, err
	}
	if page.Size > 0 {
		w.size = page.Size
	}
	w.cursor = page.Next
	if w.examined += scanCount; w.cursor.IsStart() {
		w.current++
		w.examined = w.size * int64(w.current)
	}
	if w.size > 0 {
		w.examined = min(w.examined, w.size*int64(w.current+1))
	}
	slices.Sort(page.Keys)
	return scan, slices.Compact(page.Keys), nil
}

// nextScan returns the walk whose node has done the least for lists, or nil.
func nextScan(s *session.Session, scans []*keyScan) *keyScan {
	if len(scans) == 0 {
		return nil
	}
	return slices.MinFunc(scans, func(a, b *keyScan) int {
		return int(s.Runner.Pace(a.node).Pause() - s.Runner.Pace(b.node).Pause())
	})
}
