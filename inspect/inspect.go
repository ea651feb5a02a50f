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
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// NodeError is the error of one node of a cluster.
type NodeError struct {
	Node string // the address of the node
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

// lister finds and inspects the keys of a layout.
type lister interface {
	// scans returns what has to be scanned.
	scans() []wire.Scan
	// ofKey returns the inspection of a key that a scan found, or nil if the key says nothing.
	ofKey(scan wire.Scan, key string) *keyInspection
	// ofName returns the inspections of one name; about has its name and holder key.
	ofName(set proto.Set, about Entry) []*keyInspection
}

// listerOf returns the layout that locks of the session have by default.
func listerOf(s *session.Session, namePrefix string, limit int) lister {
	if reader := layoutOf(s).Reader; reader != nil {
		return others{reader: reader, namePrefix: namePrefix}
	}
	return native{prefix: s.Settings.Prefix, namePrefix: namePrefix, waiterLimit: limit}
}

// inspectionOf returns what ofKey of l does, and nil for a key that is longer than that of any name: a list would keep it.
func inspectionOf(l lister, scan wire.Scan, key string) *keyInspection {
	if len(key) >= proto.MaxKeyBytes {
		return nil
	}
	return l.ofKey(scan, key)
}

func layoutOf(s *session.Session) *proto.Layout {
	return cmp.Or(s.Settings.Lock.Layout, proto.Native())
}

// Names returns the names in use that begin with prefix, in no order. A name that is in use from the beginning of the
// loop to its end is yielded; each entry is yielded once, as it was at some moment of the loop. A name that is acquired
// or released meanwhile may be yielded or not. Keys of 2 KiB and more, which only other programs have, are passed over.
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
		loop := &namesLoop{ctx: ctx, session: (*session.Handle)(s).Session(), prefix: prefix, yield: yield}
		for _, option := range options {
			if option != nil {
				option(&loop.settings)
			}
		}
		if err := checkList(loop.session, prefix); err != nil {
			loop.fail(Entry{}, err)
			return
		}
		if ctx == nil {
			loop.fail(Entry{}, errNilContext)
			return
		}
		loop.lister = listerOf(loop.session, prefix, maxShown)
		loop.yielded, loop.reported = make(map[string]struct{}), make(map[string]struct{})
		loop.run()
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

type namesLoop struct {
	settings namesSettings

	ctx     context.Context //nolint:containedctx // the loop ends with the call
	session *session.Session
	lister  lister
	prefix  string
	yield   func(Entry, error) bool

	yielded  map[string]struct{} // the keys of the entries that were yielded
	reported map[string]struct{} // the texts of the errors that were yielded
	stopped  bool
}

// run goes through the keys of all nodes, in turns.
func (l *namesLoop) run() {
	nodes, err := l.session.Runner.Nodes(l.ctx)
	if err != nil {
		l.fail(Entry{}, err)
		return
	}
	var all []*keyScan
	for _, node := range nodes {
		all = append(all, newKeyScan(node, l.lister.scans()))
	}
	running := slices.Clone(all)
	for k := nextScan(l.session, running); k != nil && !l.stopped; k = nextScan(l.session, running) {
		if !l.settings.fullSpeed {
			_ = l.session.Runner.Pace(k.node).Wait(l.ctx) // the page reports the end of ctx
		}
		scan, keys, err := k.nextPage(l.ctx, l.session)
		if err != nil {
			l.fail(Entry{}, nodeError(k.node, err))
		} else {
			l.yieldPage(scan, k.node, keys)
		}
		if err != nil || k.isDone() {
			running = slices.DeleteFunc(running, func(other *keyScan) bool { return other == k })
		}
		l.reportProgress(all)
	}
}

// reportProgress calls the function of Progress.
func (l *namesLoop) reportProgress(scans []*keyScan) {
	if l.settings.progress == nil || l.stopped {
		return
	}
	var examined, keys int64
	for _, k := range scans {
		examined, keys = examined+k.examined, keys+k.total()
	}
	l.settings.progress(examined, keys)
}

// yieldPage yields the entries of a page of keys.
func (l *namesLoop) yieldPage(scan wire.Scan, node string, keys []string) {
	var inspections []*keyInspection
	for _, key := range keys {
		if _, seen := l.yielded[key]; seen {
			continue
		}
		if ki := inspectionOf(l.lister, scan, key); ki != nil {
			inspections = append(inspections, ki)
		}
	}
	resolve(l.ctx, l.session, node, inspections)
	for _, ki := range inspections {
		switch {
		case l.stopped:
			return
		case ki.Err != nil:
			l.fail(ki.about, nodeError(node, ki.Err))
		case ki.InUse:
			l.yielded[ki.Key] = struct{}{}
			l.stopped = !l.yield(ki.entry(maxShown), nil)
		}
	}
}

// nodeError returns err as the error of a node, if there are several.
func nodeError(node string, err error) error {
	if node == "" {
		return err
	}
	return &NodeError{node, err}
}

// fail yields an error, unless it was yielded before.
func (l *namesLoop) fail(about Entry, err error) {
	if l.stopped {
		return
	}
	ended := l.ctx != nil && l.ctx.Err() != nil
	if ended {
		err = errs.Ended(l.ctx)
	}
	text := err.Error()
	if _, reported := l.reported[text]; !reported {
		if l.reported != nil {
			l.reported[text] = struct{}{}
		}
		name := cmp.Or(about.Name, l.prefix)
		l.stopped = !l.yield(about, &signalbox.OpError{Op: "list", Name: name, Err: err})
	}
	l.stopped = l.stopped || ended || errors.Is(err, errs.ErrClosed)
}

// Name returns what name is used for, an entry for each kind; none if it is not in use. It takes one or two pipelines.
func Name(ctx context.Context, s *signalbox.Session, name string) ([]Entry, error) {
	entries, err := inspect(ctx, (*session.Handle)(s).Session(), name)
	if err != nil {
		return nil, &signalbox.OpError{Op: "inspect", Name: (*session.Handle)(s).Session().DisplayName(name), Err: err}
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
	inspections := listerOf(s, "", maxOfName).ofName(set, Entry{Name: s.DisplayName(name), Key: set.Holder, Hashed: s.Settings.Hashed})
	resolve(ctx, s, "", inspections)
	var entries []Entry
	for _, ki := range inspections {
		switch {
		case ctx.Err() != nil:
			return nil, errs.Ended(ctx)
		case ki.Err != nil:
			return nil, ki.Err
		case ki.InUse:
			entries = append(entries, ki.entry(maxOfName))
		}
	}
	return entries, nil
}

// literal returns the glob pattern that matches text alone.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(text)
}

// withoutPartialRune returns text without the beginning of a character at its end: as a part of a name that is encoded otherwise.
func withoutPartialRune(text string) string {
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
