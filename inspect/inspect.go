// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// perScan is how many keys the server examines for one page, in about half a millisecond.
const perScan = 1000

// NodeError is the error of one node of a cluster.
type NodeError struct {
	Node string // its address
	Err  error
}

// Error implements error.
func (e *NodeError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("node %s: %v", e.Node, e.Err)
}

// Unwrap returns what went wrong.
func (e *NodeError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// view is a layout, as far as it can be listed.
type view interface {
	// scans returns what has to be scanned.
	scans() []wire.Scan
	// probe returns a probe of a key that a scan found, or nil if the key says nothing.
	probe(scan wire.Scan, key string) *probe
	// all returns the probes of one name; entry has its name and holder key.
	all(set names.Set, entry Entry) []*probe
}

// viewOf returns the layout that locks of the session have by default.
func viewOf(s *session.Session, asked string, limit int) view {
	switch layoutOf(s) {
	case layout.Native():
		return native{prefix: s.Settings.Prefix, asked: asked, limit: limit}
	case layout.SetNX():
		return setnx{asked: asked}
	default:
		return redisson{asked: asked}
	}
}

func layoutOf(s *session.Session) *layout.Layout {
	return cmp.Or(s.Settings.Lock.Layout, layout.Native())
}

// Names returns the names in use that begin with prefix, in no order. A name that is in use from the beginning of the
// loop to its end is yielded; each entry is yielded once, as it was at some moment of the loop. A name that is acquired
// or released meanwhile may be yielded or not.
//
// An error does not end the sequence, unless the context or the session has ended, or the server is away. An error of a
// node of a cluster is a *NodeError, and its names are missing. An error of a name comes with an Entry that has Name and
// Key; if it meets many names of a node it is yielded with the first of them.
//
// The server examines all its keys, a thousand at a time, and serves others in between. For each thousand it takes one
// SCAN, and one or two pipelines of short calls. The loop keeps the keys of the names that it has yielded.
func Names(ctx context.Context, s *signalbox.Session, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		l := &listing{ctx: ctx, session: (*session.Handle)(s).Session(), prefix: prefix, yield: yield}
		if err := l.session.Ready(); err != nil {
			l.fail(Entry{}, err)
			return
		}
		if ctx == nil {
			l.fail(Entry{}, errNilContext)
			return
		}
		if l.session.Settings.Hashed && prefix != "" {
			l.fail(Entry{}, fmt.Errorf("%w: the names are hashed: only the prefix \"\" lists them", errs.ErrBadOption))
			return
		}
		l.view = viewOf(l.session, prefix, brief)
		l.seen, l.said = make(map[string]struct{}), make(map[string]struct{})
		for _, scan := range l.view.scans() {
			scan.Count = perScan
			l.session.Runner.Scan(ctx, scan, func(node string, keys []string, err error) bool {
				return l.page(scan, node, keys, err)
			})
			if l.over {
				return
			}
		}
	}
}

var errNilContext = fmt.Errorf("%w: the context is nil", errs.ErrBadOption)

// listing is one loop of Names.
type listing struct {
	ctx     context.Context //nolint:containedctx // of one call, which it ends with
	session *session.Session
	view    view
	prefix  string
	yield   func(Entry, error) bool

	seen map[string]struct{} // the keys of the entries that were yielded
	said map[string]struct{} // the errors that were, with the node
	over bool
}

// page yields the entries of a page of keys.
func (l *listing) page(scan wire.Scan, node string, keys []string, err error) bool {
	if err != nil {
		return l.fail(Entry{}, ofNode(node, err))
	}
	slices.Sort(keys)
	var probes []*probe
	for _, key := range slices.Compact(keys) {
		if _, seen := l.seen[key]; seen {
			continue
		}
		if p := l.view.probe(scan, key); p != nil {
			probes = append(probes, p)
		}
	}
	resolve(l.ctx, l.session, probes)
	for _, p := range probes {
		switch {
		case p.err != nil:
			if !l.fail(Entry{Name: p.entry.Name, Key: p.entry.Key, Hashed: p.entry.Hashed, Raw: p.entry.Raw}, ofNode(node, p.err)) {
				return false
			}
		case p.used:
			l.seen[p.entry.Key] = struct{}{}
			p.entry.keep(brief)
			if l.over = !l.yield(p.entry, nil); l.over {
				return false
			}
		}
	}
	return true
}

func ofNode(node string, err error) error {
	if node == "" {
		return err
	}
	return &NodeError{node, err}
}

// fail yields an error, unless it was yielded before. It reports whether the loop continues.
func (l *listing) fail(about Entry, err error) bool {
	if l.over {
		return false
	}
	ended := l.ctx != nil && l.ctx.Err() != nil
	if ended {
		err = errs.Ended(l.ctx)
	}
	text := err.Error()
	if _, said := l.said[text]; !said {
		if l.said != nil {
			l.said[text] = struct{}{}
		}
		name := cmp.Or(about.Name, l.prefix)
		l.over = !l.yield(about, &signalbox.OpError{Op: "list", Name: name, Err: err})
	}
	l.over = l.over || ended || errors.Is(err, errs.ErrClosed)
	return !l.over
}

// Name returns what name is used for, an entry for each kind; none if it is not in use. It takes one or two pipelines.
func Name(ctx context.Context, s *signalbox.Session, name string) ([]Entry, error) {
	entries, err := inspect(ctx, (*session.Handle)(s).Session(), name)
	if err != nil {
		return nil, &signalbox.OpError{Op: "inspect", Name: (*session.Handle)(s).Session().Shown(name), Err: err}
	}
	return entries, nil
}

func inspect(ctx context.Context, s *session.Session, name string) ([]Entry, error) {
	if err := s.Ready(); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errNilContext
	}
	set, err := s.Names(layoutOf(s), name)
	if err != nil {
		return nil, err
	}
	probes := viewOf(s, "", most).all(set, Entry{Name: s.Shown(name), Key: set.Holder, Hashed: s.Settings.Hashed})
	resolve(ctx, s, probes)
	var entries []Entry
	for _, p := range probes {
		switch {
		case ctx.Err() != nil:
			return nil, errs.Ended(ctx)
		case p.err != nil:
			return nil, p.err
		case p.used:
			p.entry.keep(most)
			entries = append(entries, p.entry)
		}
	}
	return entries, nil
}

// literal returns the glob pattern that matches text alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}

// whole returns text without the beginning of a character at its end: as a part of a name that is encoded otherwise.
func whole(text string) string {
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if last := text[len(text)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}
