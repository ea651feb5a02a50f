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
// The server examines all its keys, 500 at a time. If there are many, the loop pauses so that it takes at most a tenth of the
// server's time: it lasts about 10 s for each million keys. FullSpeed leaves the pauses out. The loop remembers the keys of the
// names that it has yielded. To show a list again and again use List.
func Names(ctx context.Context, s *signalbox.Session, prefix string, options ...NamesOption) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		l := &listing{ctx: ctx, session: (*session.Handle)(s).Session(), prefix: prefix, yield: yield}
		for _, option := range options {
			if option != nil {
				option(&l.settings)
			}
		}
		if err := checkList(l.session, prefix); err != nil {
			l.fail(Entry{}, err)
			return
		}
		if ctx == nil {
			l.fail(Entry{}, errNilContext)
			return
		}
		l.view = viewOf(l.session, prefix, brief)
		l.seen, l.said = make(map[string]struct{}), make(map[string]struct{})
		l.run()
	}
}

// NamesOption is an option of Names.
type NamesOption func(*namesSettings)

// namesSettings are what the options of Names set.
type namesSettings struct {
	fullSpeed bool
	progress  func(examined, keys int64)
}

// FullSpeed lets Names examine the keys without pauses: several times as fast, while other clients of the server wait up to
// several milliseconds longer for each call.
func FullSpeed() NamesOption { return func(s *namesSettings) { s.fullSpeed = true } }

// Progress calls report after each page of keys with how many keys were examined and how many there are, both about. keys is 0 if
// that is not known.
func Progress(report func(examined, keys int64)) NamesOption {
	return func(s *namesSettings) { s.progress = report }
}

// checkList returns why the names that begin with prefix cannot be listed, or nil.
func checkList(s *session.Session, prefix string) error {
	if err := s.Ready(); err != nil {
		return err
	}
	if s.Settings.Hashed && prefix != "" {
		return fmt.Errorf("%w: the names are hashed: only the prefix \"\" lists them", errs.ErrBadOption)
	}
	return nil
}

var errNilContext = fmt.Errorf("%w: the context is nil", errs.ErrBadOption)

// listing is one loop of Names.
type listing struct {
	settings namesSettings

	ctx     context.Context //nolint:containedctx // of one call, which it ends with
	session *session.Session
	view    view
	prefix  string
	yield   func(Entry, error) bool

	seen map[string]struct{} // the keys of the entries that were yielded
	said map[string]struct{} // the errors that were, with the node
	over bool
}

// run goes through the keys of all nodes, in turns.
func (l *listing) run() {
	nodes, err := l.session.Runner.Nodes(l.ctx)
	if err != nil {
		l.fail(Entry{}, err)
		return
	}
	var all []*walk
	for _, node := range nodes {
		all = append(all, newWalk(node, l.view.scans()))
	}
	under := slices.Clone(all)
	for w := next(l.session, under); w != nil && !l.over; w = next(l.session, under) {
		if !l.settings.fullSpeed {
			_ = l.session.Runner.Pace(w.node).Wait(l.ctx) // the page reports the end of ctx
		}
		scan, keys, err := w.page(l.ctx, l.session)
		if err != nil {
			l.fail(Entry{}, ofNode(w.node, err))
		} else {
			l.page(scan, w.node, keys)
		}
		if err != nil || w.over() {
			under = slices.DeleteFunc(under, func(other *walk) bool { return other == w })
		}
		l.report(all)
	}
}

func (l *listing) report(walks []*walk) {
	if l.settings.progress == nil || l.over {
		return
	}
	var examined, keys int64
	for _, w := range walks {
		examined, keys = examined+w.examined, keys+w.keys()
	}
	l.settings.progress(examined, keys)
}

// page yields the entries of a page of keys.
func (l *listing) page(scan wire.Scan, node string, keys []string) {
	var probes []*probe
	for _, key := range keys {
		if _, seen := l.seen[key]; seen {
			continue
		}
		if p := l.view.probe(scan, key); p != nil {
			probes = append(probes, p)
		}
	}
	resolve(l.ctx, l.session, node, probes)
	for _, p := range probes {
		switch {
		case l.over:
			return
		case p.err != nil:
			l.fail(Entry{Name: p.entry.Name, Key: p.entry.Key, Hashed: p.entry.Hashed, Raw: p.entry.Raw}, ofNode(node, p.err))
		case p.used:
			l.seen[p.entry.Key] = struct{}{}
			p.entry.keep(brief)
			l.over = !l.yield(p.entry, nil)
		}
	}
}

func ofNode(node string, err error) error {
	if node == "" {
		return err
	}
	return &NodeError{node, err}
}

// fail yields an error, unless it was yielded before.
func (l *listing) fail(about Entry, err error) {
	if l.over {
		return
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
	resolve(ctx, s, "", probes)
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
