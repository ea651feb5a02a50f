// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/hold"
	"github.com/signalbox-go/signalbox/internal/notify"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// Session is the machinery of one client. New makes one.
type Session struct {
	Settings Settings
	Runner   *wire.Runner
	Clock    *wire.ServerClock
	Timers   *timers.Timers
	Keeper   *hold.Keeper
	Dispatch *notify.Dispatcher
	Undoer   *Undoer
	Logs     Logs
	Outages  outages
	// Forces listens for holds that other processes end by force, and for recalls.
	Forces forceListener
	// Handshakes are the first contacts with the server.
	Handshakes handshakes
	// UnlockPatience is how long Unlock waits for the server. It is set before the first lock is acquired.
	UnlockPatience time.Duration

	client        rueidis.Client
	owned         bool // Close closes the client
	err           error
	id            string
	grantsChannel string        // see GrantsChannel
	nameCache     *proto.Cache  // nil if the session is not valid
	serial        atomic.Uint64 // the number of attempts so far
	closing       closing
	defaults      defaults

	sleepRecovery sleepRecovery
	connFailures  connFailures
	registries    registries
	patiencePool  sync.Pool // idle values of type *Patience

	mu struct {
		sync.Mutex
		busy    int           // the number of calls that request a lock, and of holds
		drained chan struct{} // closed once the session is closing and not busy; nil before Close

		forceListening listenState
	}
}

// New returns a Session on client. It sends nothing and starts nothing.
func New(client rueidis.Client, set Settings, owned bool) *Session {
	s := &Session{
		client: client, owned: owned, Settings: set, UnlockPatience: UnlockPatience,
		err: errs.Join(set.Err, set.Lock.Err),
	}
	if client == nil {
		s.err = errs.Join(s.err, fmt.Errorf("%w: the client is nil", errs.ErrBadOption))
	}
	id, err := newID()
	if err != nil {
		s.err = errs.Join(s.err, err)
	}
	s.id = id
	s.defaults.settings = &s.Settings
	s.closing.session, s.closing.done = s, make(chan struct{})
	s.grantsChannel = proto.Grants(set.Prefix)
	s.patiencePool.New = func() any { return newPatience(s) }
	s.Logs.init(s)
	if set.Observer != nil {
		s.Settings.Observer = set.Observer.With(s.Logs.hookPanicked)
	}
	s.Forces.session = s
	s.Forces.entry.Init(&s.Forces)
	s.mu.forceListening.never, s.mu.forceListening.channelEnds = set.Polling, []string{id}
	if s.err != nil {
		return s
	}
	s.nameCache = proto.NewCache()
	s.Handshakes.init(s)
	s.Timers = timers.New()
	s.sleepRecovery.init(s)
	s.Runner = wire.NewRunner(client)
	s.Runner.Span.SetProbePrefix(set.Prefix)
	s.Clock = wire.NewServerClock(s.Runner)
	s.Outages.session, s.connFailures.session = s, s
	s.Outages.entry.Init(&s.Outages)
	s.Runner.Watch(&s.Outages)
	s.Clock.Watch(&s.Outages)
	s.Keeper = hold.NewKeeper(s.Runner, s.Timers, s.Settings.Observer)
	s.Dispatch = notify.NewDispatcher(client, s.Runner, s.Timers, &s.Logs, set.Polling)
	s.Undoer = NewUndoer(s.Runner, s.Timers)
	return s
}

// ID returns the id of the session: 22 characters, "" for none.
func (s *Session) ID() string {
	if s == nil {
		return ""
	}
	return s.id
}

// Logger returns the logger for what no call can return: slog.Default() unless one was set.
func (s *Session) Logger() *slog.Logger {
	if s == nil || s.Settings.Logger == nil {
		return slog.Default()
	}
	return s.Settings.Logger
}

// Valid returns an error if s is no session.
func (s *Session) Valid() error {
	switch {
	case s == nil:
		return fmt.Errorf("%w: the session is nil", errs.ErrBadOption)
	case s.err == nil && s.Timers == nil:
		return fmt.Errorf("%w: the session was made by neither Dial nor NewSession", errs.ErrBadOption)
	}
	return s.err
}

// Ready returns an error if s is no session, or is closing.
func (s *Session) Ready() error {
	if err := s.Valid(); err != nil {
		return err
	}
	if s.closing.begun.Load() {
		return errs.ErrClosed
	}
	return nil
}

// Names returns what name is on the server, in a layout.
func (s *Session) Names(l *proto.Layout, name string) (proto.Set, error) {
	if s == nil {
		return proto.Set{}, fmt.Errorf("%w: the session is nil", errs.ErrBadOption)
	}
	if s.Settings.Hashed && l != proto.Native() {
		return proto.Set{}, fmt.Errorf("%w: %s knows no hashed names", errs.ErrBadOption, l.Name)
	}
	in := s.namingOptions()
	if l == proto.Native() && s.nameCache != nil {
		return named(s.nameCache.Native(in, name))
	}
	return named(l.Names(in, name))
}

// NamesInCluster returns the error of Names if the server is a cluster.
func (s *Session) NamesInCluster(l *proto.Layout, name string) error {
	in := s.namingOptions()
	in.Clustered = true
	_, err := named(l.Names(in, name))
	return err
}

func (s *Session) namingOptions() proto.NamingOptions {
	clustered := s.Runner != nil && s.Runner.Clustered()
	return proto.NamingOptions{Prefix: s.Settings.Prefix, Hashed: s.Settings.Hashed, Clustered: clustered}
}

// named returns the keys of a name, or the error of a text that is no name.
func named(set proto.Set, err error) (proto.Set, error) {
	if err != nil {
		return proto.Set{}, fmt.Errorf("%w: %w", errs.ErrBadName, err)
	}
	return set, nil
}

// DisplayName returns what errors and logs call name.
func (s *Session) DisplayName(name string) string {
	if s != nil && s.Settings.Hashed {
		return proto.Hash(name)
	}
	return name
}

// NodeID returns a number for the node that has slot. In a cluster it is the slot itself, since each node may be
// away by itself; elsewhere it is 0.
func (s *Session) NodeID(slot uint16) uint16 {
	if s.Runner == nil || !s.Runner.Clustered() {
		return 0
	}
	return slot
}

// PublishCommand returns the command by which a script notifies the waiters for a lock of the library's own layout.
func (s *Session) PublishCommand() string { return s.PublishCommandsIn(proto.Native()) }

// PublishCommandsIn returns the commands for a layout, with a blank between two.
func (s *Session) PublishCommandsIn(l *proto.Layout) string {
	return s.Dispatch.PublishCommands(ChannelTypesOf(l))
}

// ChannelTypesOf returns how the releases of locks in a layout are reported in a cluster.
func ChannelTypesOf(l *proto.Layout) notify.ChannelTypes {
	switch l.Channels {
	case proto.PlainChannels:
		return notify.PlainChannel
	case proto.PlainChannels | proto.ShardedChannels:
		return notify.BothChannels
	default:
		return notify.ShardedChannel
	}
}

// Begin counts a call in that requests a lock; the hold that it makes replaces it in the count. It returns
// ErrClosed when the session accepts no more work.
func (s *Session) Begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.begun.Load() {
		return errs.ErrClosed
	}
	s.mu.busy++
	if s.mu.busy == 1 {
		s.Forces.busyLocked()
	}
	return nil
}

// BeginDetached counts a call in beside one that is counted in, for work that continues when that one is over.
func (s *Session) BeginDetached() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.busy++
}

// End counts a call out that ended without a hold, or a hold that was released or lost.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.busy--
	if s.mu.busy > 0 {
		return
	}
	s.Forces.idleLocked()
	if s.mu.drained != nil {
		close(s.mu.drained)
		s.mu.drained = nil
	}
}

// IsIdle reports whether the session has no call, no hold and nothing to undo. In this order: a
// call that is counted out has begun its undos before.
func (s *Session) IsIdle() bool {
	s.mu.Lock()
	busy := s.mu.busy
	s.mu.Unlock()
	return busy == 0 && s.Undoer.Pending() == 0
}

// EvictionError returns the error with which leases end once Close has waited for holders long enough, and nil
// before. A hold that begins calls it after it has registered: either Close finds the hold, or the hold finds Close.
func (s *Session) EvictionError() error {
	if s.closing.evicted.Load() {
		return fmt.Errorf("%w: %w", errs.ErrLost, errs.ErrClosed)
	}
	return nil
}

// NotAfter returns until when, in the time of the server that has slot, a call sent now that creates state
// may take effect. That is as long as the lease that it asks for, since a later execution grants a lease that
// is over already, and at most MaxPatience.
func (s *Session) NotAfter(slot uint16, now timers.Instant, life time.Duration) wire.Stamp {
	return s.Clock.NotAfter(slot, now, min(life, MaxPatience))
}

// MaxClockSkew is how far the clocks of two nodes may differ so that a call of unknown outcome is still
// undone, whenever it is executed. Close waits that long at the worst.
const MaxClockSkew = 5 * time.Minute

// MaxPatience bounds how long after its sending an acquire may still take effect.
const MaxPatience = 3 * time.Second

// newID returns the identity of a session. It does not begin with a hyphen: people give it to the command as an argument.
func newID() (string, error) {
	for {
		var random [16]byte
		if _, err := rand.Read(random[:]); err != nil {
			return "", err
		}
		if id := base64.RawURLEncoding.EncodeToString(random[:]); id[0] != '-' {
			return id, nil
		}
	}
}

// GrantsChannel returns the channel on which this session and others are notified of grants of the lock n, without the id of the
// session at its end: one channel for all locks, or in a cluster one for each, in its slot.
func (s *Session) GrantsChannel(n proto.Set) string {
	if s.Runner.Clustered() {
		return n.Grants()
	}
	return s.grantsChannel
}

// NewHold returns a hold of the library's own layout that was never used before.
func (s *Session) NewHold() string { return s.NewHoldIn(proto.Native()) }

// NewTicket returns a hold of the library's own layout that was never used before, with suffixes.
func (s *Session) NewTicket(suffixes ...string) string {
	return proto.NativeTicket(s.id, s.serial.Add(1), suffixes...)
}

// NewHoldIn returns a hold that was never used before.
func (s *Session) NewHoldIn(l *proto.Layout) string { return l.Hold(s.id, s.serial.Add(1)) }

// NewAttempt returns the part of a hold id that distinguishes a hold of this session from its others, and
// from those of copies of the session, whose ids precede it: the last 19 characters of a new hold id.
func (s *Session) NewAttempt() string { return s.NewHold()[len(s.id):] }

// RunReplicated runs a script, and waits until replicas have what it wrote. shortfall says why it is not
// known that enough replicas have it; it has no meaning if the script wrote nothing. err is the script's.
func (s *Session) RunReplicated(ctx context.Context, call wire.Call, want Replicas) (reply wire.Reply, shortfall, err error) {
	script, replicated := s.Runner.RunReplicated(ctx, call, want.Count, want.Wait)
	switch got := proto.ReadNumber(&replicated.Reply); {
	case replicated.Err != nil:
		shortfall = replicated.Err
	case got < int64(want.Count):
		shortfall = fmt.Errorf("%w: %d of %d said so within %v", errs.ErrNotReplicated, got, want.Count, want.Wait)
	}
	return script.Reply, shortfall, script.Err
}

// Handle is a Session as users have it. signalbox.Session is defined over it, and not over Session: users would
// see the fields.
type Handle struct{ session *Session }

// Handle returns a new handle of s.
func (s *Session) Handle() *Handle { return &Handle{s} }

// Session returns the session, nil for a nil or a zero Handle.
func (h *Handle) Session() *Session {
	if h == nil {
		return nil
	}
	return h.session
}

// PlaceHandle is a Place as users have it. signalbox.Place is defined over it.
type PlaceHandle struct{ place Place }

// Handle returns a handle of p.
func (p Place) Handle() PlaceHandle { return PlaceHandle{p} }

// Place returns the place.
func (h PlaceHandle) Place() Place { return h.place }

// LayoutHandle is a layout as users have it. signalbox.Layout is defined over it. The zero LayoutHandle is that of the
// library's own layout.
type LayoutHandle struct {
	layout *proto.Layout
	err    error
}

// NewLayoutHandle returns a handle of l, or of the error in the options of a layout.
func NewLayoutHandle(l *proto.Layout, err error) LayoutHandle { return LayoutHandle{l, err} }

// Layout returns the layout, or what is wrong with its options.
func (h LayoutHandle) Layout() (*proto.Layout, error) {
	return cmp.Or(h.layout, proto.Native()), h.err
}
