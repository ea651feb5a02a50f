// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
)

// Give records that the lock was given an option, valid or not.
func (l *LockSettings) Give(o proto.Option) { l.Given |= o }

// Option returns the option o. It calls set, unless err says what is wrong with its value. A default that the kind does not take is
// left out.
func Option(o proto.Option, err error, set func(*LockSettings)) func(*LockSettings) {
	return func(l *LockSettings) {
		if l.leftOut&o != 0 {
			return
		}
		l.Give(o)
		if err != nil {
			l.Fail(err)
			return
		}
		set(l)
	}
}

// GiveLayout records that the lock was given a layout. The library's own cancels one of others; any other pair of layouts
// is a contradiction.
func (l *LockSettings) GiveLayout(in *proto.Layout) {
	option := proto.OptionLayout
	switch {
	case in == proto.Native():
		option = proto.OptionNative
		l.Given &^= proto.OptionLayout
		l.Plain = l.Plain && l.Given&proto.OptionPlain != 0
	case l.Given&(proto.OptionLayout|proto.OptionNative) != 0 && l.Layout != in:
		l.layoutConflict = contradiction(layoutOption(l.Layout), layoutOption(in))
	}
	l.Give(option)
	l.Layout = in
}

// layoutOption is what errors call the option of a layout.
func layoutOption(l *proto.Layout) string { return "WithLayout(" + l.Name + ")" }

// startOf returns what the settings of locks of a kind start from: the session's defaults, without those that the kind does not take.
// A layout is never left out: the lock would not be the one that others use.
func (s *Settings) startOf(kind *proto.Kind) LockSettings {
	l := lockDefaults()
	l.Lease = cmp.Or(kind.Lease, l.Lease)
	if kind.WholeLease {
		l.FirstLease = MaxLease
	}
	l.leftOut = ^(kind.Takes() | proto.OptionLayout)
	for _, set := range s.lockDefaults {
		l.Given = 0
		set(&l)
	}
	l.Given, l.leftOut, l.layoutConflict = 0, 0, nil // what a lock is given is in addition
	return l
}

// Unsupported returns an error if the lock was given an option that locks in this layout do not have. A
// default of the session is no error.
func (l *LockSettings) Unsupported(in string) error {
	if o := (l.Given & notInOthers).First(); o != 0 {
		return fmt.Errorf("%w: %v: a lock in the layout of %s does not have it", errs.ErrBadOption, o, in)
	}
	return nil
}

// notInOthers are options that no layout of others can store.
const notInOthers = proto.OptionKeep | proto.OptionTokenFloor | proto.OptionFirstLease | proto.OptionKeepWarm | proto.OptionWanted

// contradictions are options that say different things about one lease.
//
//nolint:gochecknoglobals // a constant table
var contradictions = [][2]proto.Option{
	{proto.OptionRenewedLease, proto.OptionFixedLease},
	{proto.OptionMaxHold, proto.OptionFixedLease},
	{proto.OptionKeepWarm, proto.OptionFixedLease},
	{proto.OptionKeepWarm, proto.OptionMaxHold},
	{proto.OptionWanted, proto.OptionFixedLease},
}

// Contradiction returns an error if two of the options given contradict each other: the lock cannot have both, and must not
// choose in silence.
func (l *LockSettings) Contradiction() error {
	for _, pair := range contradictions {
		if both := pair[0] | pair[1]; l.Given&both == both {
			return contradiction(pair[0].String(), pair[1].String())
		}
	}
	return l.layoutConflict
}

func contradiction(one, other string) error {
	return fmt.Errorf("%w: %s and %s contradict each other: give one of them", errs.ErrBadOption, one, other)
}

// checkKind returns an error if the lock was given an option that its kind does not take.
func (l *LockSettings) checkKind(kind *proto.Kind) error {
	takes := kind.Takes()
	if l.Layout != nil && kind.Has(l.Layout) {
		takes |= proto.OptionLayout
	}
	o := (l.Given &^ takes).First()
	if o == 0 {
		return nil
	}
	name := o.String()
	if o == proto.OptionLayout {
		name = layoutOption(l.Layout)
	}
	return fmt.Errorf("%w: %s is not an option of %s: it has %v", errs.ErrBadOption, name, kind.Name, kind.Takes())
}

// defaults are what the session's defaults come to, for each kind of which a lock was made.
type defaults struct {
	settings *Settings
	byKind   sync.Map // of *proto.Kind and *kindDefaults, of which no entry is ever written to
}

// kindDefaults is what the session's defaults come to for a kind.
type kindDefaults struct {
	start    LockSettings
	resolved *Resolved
}

// DefaultsOf returns what locks of the kind without options of their own share.
func (s *Session) DefaultsOf(kind *proto.Kind) *Resolved { return s.defaults.of(kind).resolved }

// ResolveOptions returns what options of a lock of the kind come to beside the session's defaults.
func ResolveOptions[O ~func(*LockSettings)](s *Session, kind *proto.Kind, options []O) *Resolved {
	set := s.defaults.of(kind).start
	Apply(&set, options)
	return set.Resolve(kind)
}

func (d *defaults) of(kind *proto.Kind) *kindDefaults {
	known, is := d.byKind.Load(kind)
	if !is {
		known, _ = d.byKind.LoadOrStore(kind, d.workOut(kind)) // of two first locks one stores them
	}
	return known.(*kindDefaults) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// workOut works the defaults of a kind out. It has a frame of its own: the settings are large, and the stack of a goroutine that
// makes a lock is to stay small.
func (d *defaults) workOut(kind *proto.Kind) *kindDefaults {
	k := &kindDefaults{start: d.settings.startOf(kind)}
	set := k.start
	k.resolved = set.Resolve(kind)
	return k
}
