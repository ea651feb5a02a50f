// SPDX-License-Identifier: Apache-2.0

package session

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const (
	// MinLease is the shortest lease. Tokens may run that far ahead of the server's clock, so
	// a floor that ended with its key is behind the clock by then.
	MinLease = 100 * time.Millisecond
	// MaxLease is the longest lease. A longer one would block the lock for days after its holder died.
	MaxLease = 24 * time.Hour
	// DefaultFloor is how long the server keeps the floor of an idle lock's tokens by default.
	DefaultFloor = time.Minute
	// MinFloor and MaxFloor are the shortest and the longest such time.
	MinFloor, MaxFloor = time.Second, 24 * time.Hour
	// DefaultLease is the life of a renewed lease unless an option says otherwise.
	DefaultLease = 30 * time.Second
	// Unset is a duration that no option has set, if 0 has a meaning.
	Unset time.Duration = -1
	// DefaultFirstLease is how long a renewed lease lasts before its first renewal unless an option
	// says otherwise. It is the longest delay by a holder that dies young.
	DefaultFirstLease = 3 * time.Second
	// DefaultCloseGrace is how long Close waits if its context has no deadline and no close grace was given.
	DefaultCloseGrace = 5 * time.Second
	// DefaultLinger is how long a function of package once continues by default when no call waits for it.
	DefaultLinger = 5 * time.Minute
	// MaxCloseGrace is the longest such wait. A process that shall end should not wait longer.
	MaxCloseGrace = 24 * time.Hour
	// MaxLabel is the length of the longest label, in bytes: it travels with every acquire.
	MaxLabel = 64
	// MaxReplicas is the greatest number of replicas to wait for: more than any deployment has.
	MaxReplicas = 100
	// MinReplicaWait is the shortest wait for replicas: what the server counts in.
	MinReplicaWait = time.Millisecond
	// MaxKeepWarm is how long a hold is kept at most while no goroutine uses it.
	MaxKeepWarm = time.Minute
	// MaxReplicaWait is the longest wait for replicas. A longer one would wait for a repair.
	MaxReplicaWait = time.Minute
)

// Settings is what a session's options set.
type Settings struct {
	Prefix  string
	Logger  *slog.Logger // nil is slog.Default()
	Polling bool
	Label   string // the label of the session in holder keys
	Hashed  bool   // names stay in the process
	// CloseGrace is how long Close waits at most, whatever its context allows; 0 if that was not given.
	CloseGrace time.Duration
	// SentinelCredentials returns the credentials for each connection to a sentinel, if it is not nil.
	SentinelCredentials wire.CredentialsFunc
	// Lazy lets Dial return before there is a connection.
	Lazy bool
	// OnClose are called when the session's connections are closed.
	OnClose []func()
	// Observer is notified of what happens to locks, if it is not nil. See package observe.
	Observer *observe.Observer
	// Lock has the defaults of locks, whatever their kind.
	Lock LockSettings
	Err  error // the first bad option

	// lockDefaults set the defaults of locks: a function for each AddDefaults.
	lockDefaults []func(*LockSettings)
}

// AddDefaults lets the session's locks start from what set sets. It may replace what an earlier one has set. For a kind of lock it is
// called when the first of them is made.
func (s *Settings) AddDefaults(set func(*LockSettings)) {
	before := s.Lock.Given
	s.Lock.Given = 0
	set(&s.Lock)
	if err := s.Lock.Contradiction(); err != nil && s.Err == nil {
		s.Err = err
	}
	s.Lock.Given |= before
	s.lockDefaults = append(s.lockDefaults, set)
}

// Apply sets options in l, those of package signalbox. A nil option sets nothing.
func Apply[O ~func(*LockSettings)](l *LockSettings, options []O) {
	for _, option := range options {
		if option != nil {
			option(l)
		}
	}
}

// LockSettings is what a lock's options set; a session's defaults are what it starts from.
type LockSettings struct {
	LeaseTerms

	KindSettings

	Election ElectionSettings
	Shards   ShardsSettings
	// Floor is how long the floor of the tokens is kept after the last release.
	Floor time.Duration
	// Layout is the layout on the server; nil is the library's own.
	Layout *proto.Layout
	// ParentKind is the kind that the lock is made for, such as an election, or nil.
	ParentKind *proto.Kind
	// Given are the options that the lock was given.
	Given proto.Option
	// leftOut are the options that are not applied: set while the session's defaults are.
	leftOut proto.Option
	// layoutConflict is the contradiction of two layouts, or nil.
	layoutConflict error
	// Err is the first bad option.
	Err error
}

// KindSettings are the settings that locks take as the options set them. Most belong to one kind.
type KindSettings struct {
	// Class is what observers and logs call locks of its sort.
	Class    string
	Replicas Replicas
	Quorum   QuorumSettings
	// Exact refuses a semaphore that has another number of permits on the server.
	Exact bool
	// Plain is a semaphore without owners, in a layout that has one.
	Plain bool
	// Keep is for how long a latch's rounds are kept; 0 if it is not set.
	Keep time.Duration
	// Outcome is for how long the outcome of package once is kept; 0 if it is not set.
	Outcome time.Duration
	// Linger is for how long a function of package once continues when no call waits for it.
	Linger time.Duration
	// MaxWaiters is how many goroutines of the session may wait for the lock; 0 is any number.
	MaxWaiters int
	// Wanted says that a holder learns that another session waits.
	Wanted bool
	// KeepWarm is how long a hold is kept while no goroutine uses it; 0 is not at all.
	KeepWarm time.Duration
}

// Resolved is what the options of a lock come to. It is never written to: locks of a kind without options of their own
// share that of their session.
type Resolved struct {
	KindSettings

	Kind   *proto.Kind // the kind of the lock, or its ParentKind
	Layout *proto.Layout
	Terms  LeaseTerms
	Floor  string // how long the floor of the tokens is kept, in milliseconds, as an argument of scripts
	// Err is the error of the options, and Unsupported that of options which locks in Layout do not have.
	Err, Unsupported error
	// ErrInCluster is the error of a name that cannot be one in a cluster, until it is known whether the server is one.
	ErrInCluster error
}

// Resolve returns what the options of a lock of kind come to.
func (l *LockSettings) Resolve(kind *proto.Kind) *Resolved {
	s := &Resolved{
		KindSettings: l.KindSettings, Kind: cmp.Or(l.ParentKind, kind), Layout: cmp.Or(l.Layout, proto.Native()), Terms: l.LeaseTerms,
		Floor: strconv.FormatInt((l.Floor + time.Millisecond - 1).Milliseconds(), 10), Err: l.Check(kind),
	}
	if s.Layout != proto.Native() {
		s.Unsupported = l.Unsupported(s.Layout.Name)
		s.Terms.FirstLease = s.Terms.Lease // as other clients have it, whose clocks may end holds
	}
	return s
}

// Replicas are what must have a lock before it is granted.
type Replicas struct {
	Count int           // 0 means that it does not wait
	Wait  time.Duration // how long to wait for their replies
}

// Small returns Count as a small number.
func (r Replicas) Small() uint8 { return uint8(r.Count) } //nolint:gosec // at most MaxReplicas

// QuorumSettings is what locks over several servers ask for besides.
type QuorumSettings struct {
	// Fenced locks have tokens that are ordered whatever the servers' clocks say.
	Fenced bool
	// Greatest is the longest lease that any program uses for the name; 0 is the lock's own.
	Greatest time.Duration
}

// ElectionSettings is what an election asks for besides.
type ElectionSettings struct {
	// StepDown is how long before the end of its lease a term ends.
	StepDown time.Duration
	// Value is what each term begins with.
	Value string
}

// ShardsSettings is what a group of shards asks for besides. The zero value of a field means that it is not set.
type ShardsSettings struct {
	// Weight is the part of a member in the sum of all weights.
	Weight int
	// Limit is the greatest number of shards of a member.
	Limit int
	// Value is what observers read of a member.
	Value string
	// RebalanceDelay is how long no member must have joined before owned shards are asked for.
	RebalanceDelay time.Duration
	// Moves is how many moves may be under way.
	Moves int
	// DrainLimit is how long an owner that was asked keeps its shard.
	DrainLimit time.Duration
	// RetryMin and RetryMax are the shortest and the longest pause after an error of the function.
	RetryMin, RetryMax time.Duration
}

// LeaseTerms are for how long a lock is held.
type LeaseTerms struct {
	// Lease is how long the key lives without a renewal.
	Lease time.Duration
	// FirstLease is the same before the first renewal, if it is shorter. Fixed leases do without it.
	FirstLease time.Duration
	// Fixed leases are not renewed.
	Fixed bool
	// MaxHold ends a renewed lease that long after it was acquired; 0 is never.
	MaxHold time.Duration
}

// Defaults returns the settings of a session without options.
func Defaults() Settings {
	host, _ := os.Hostname() // "" without a name
	return Settings{
		Prefix: proto.DefaultPrefix,
		Label:  processLabel(host, os.Getpid()),
		Lock:   lockDefaults(),
	}
}

// lockDefaults returns the settings of a lock without options.
func lockDefaults() LockSettings {
	return LockSettings{
		LeaseTerms: LeaseTerms{Lease: DefaultLease, FirstLease: DefaultFirstLease}, Floor: DefaultFloor,
		KindSettings: KindSettings{Linger: DefaultLinger}, Election: ElectionSettings{StepDown: Unset}, Shards: ShardsSettings{RebalanceDelay: Unset},
	}
}

// processLabel returns "host:pid", with the pid alone if there is no host. A long host name is cut in the middle: its end
// differs between the processes of one service, which may all have the pid 1.
func processLabel(host string, process int) string {
	pid := ":" + strconv.Itoa(process)
	if most := MaxLabel - len(pid); len(host) > most {
		const cut = ".."
		end := most / 2
		host = host[:most-end-len(cut)] + cut + host[len(host)-end:]
	}
	label := strings.ToValidUTF8(host, "") + pid
	if CheckLabel(label) != nil {
		return pid
	}
	return label
}

// CheckLabel says why label cannot be one, or nil.
func CheckLabel(label string) error {
	switch {
	case len(label) > MaxLabel:
		return fmt.Errorf("%w: the label has %d bytes, and %d are allowed", errs.ErrBadOption, len(label), MaxLabel)
	case !utf8.ValidString(label):
		return fmt.Errorf("%w: the label %q is not UTF-8", errs.ErrBadOption, label)
	case strings.ContainsFunc(label, unicode.IsControl):
		return fmt.Errorf("%w: the label %q has a control character", errs.ErrBadOption, label)
	}
	return nil
}

// Fail keeps the first bad option.
func (l *LockSettings) Fail(err error) {
	if l.Err == nil {
		l.Err = err
	}
}

// Check returns an error if one of the options of a lock of kind is not valid, or if they are not
// valid together.
func (l *LockSettings) Check(kind *proto.Kind) error {
	if err := cmp.Or(l.checkKind(kind), l.Contradiction()); err != nil {
		return err
	}
	if l.Err == nil && l.Replicas.Count > 0 && l.Replicas.Wait >= l.Life() {
		return fmt.Errorf("%w: a wait of %v for replicas: it must be shorter than the lease, %v", errs.ErrBadOption, l.Replicas.Wait, l.Life())
	}
	if l.Err == nil && l.KeepWarm > 0 && l.First() > DefaultFirstLease {
		return fmt.Errorf("%w: WithKeepWarm and a first lease of %v: use a first lease of at most %v", errs.ErrBadOption, l.First(), DefaultFirstLease)
	}
	return l.Err
}

// CheckMaxWaiters returns an error if a lock cannot bound its waiters by n.
func CheckMaxWaiters(n int) error {
	if n < 1 {
		return fmt.Errorf("%w: at most %d waiters: it must be 1 or more", errs.ErrBadOption, n)
	}
	return nil
}

// CheckClass returns an error if a class cannot be called class.
func CheckClass(class string) error {
	switch {
	case len(class) > MaxLabel:
		return fmt.Errorf("%w: the class has %d bytes, and %d are allowed", errs.ErrBadOption, len(class), MaxLabel)
	case !utf8.ValidString(class) || strings.ContainsFunc(class, unicode.IsControl):
		return fmt.Errorf("%w: the class %q is not UTF-8, or has a control character", errs.ErrBadOption, class)
	}
	return nil
}

// CheckRange returns an error unless v is from least to most. format says what v is.
func CheckRange[T cmp.Ordered](format string, v, least, most T) error {
	if v < least || v > most {
		return fmt.Errorf("%w: "+format+": it must be from %v to %v", errs.ErrBadOption, v, least, most)
	}
	return nil
}

// CheckValue returns an error if value has more than most bytes.
func CheckValue(value string, most int) error {
	if len(value) > most {
		return fmt.Errorf("%w: a value of %d bytes: %d are allowed", errs.ErrBadOption, len(value), most)
	}
	return nil
}

// CheckReplicas says why a lock cannot wait for count replicas, for as long as wait, or nil.
func CheckReplicas(count int, wait time.Duration) error {
	return cmp.Or(
		CheckRange("%d replicas", count, 1, MaxReplicas),
		CheckRange("a wait of %v for replicas", wait, MinReplicaWait, MaxReplicaWait),
	)
}

// CheckCloseGrace returns an error if Close cannot wait for d.
func CheckCloseGrace(d time.Duration) error {
	if d <= 0 || d > MaxCloseGrace {
		return fmt.Errorf("%w: a close grace of %v: it must be more than 0 and at most %v", errs.ErrBadOption, d, MaxCloseGrace)
	}
	return nil
}

// CheckDuration says why d cannot be the length of what, or nil.
func CheckDuration(what string, d time.Duration) error {
	return CheckRange(what+" of %v", d, MinLease, MaxLease)
}

// Life returns how long a hold lasts at most if it is not renewed.
func (l *LeaseTerms) Life() time.Duration {
	if l.MaxHold > 0 {
		return min(l.Lease, l.MaxHold)
	}
	return l.Lease
}

// First returns for how long an acquire asks.
func (l *LeaseTerms) First() time.Duration {
	if l.Fixed {
		return l.Life()
	}
	return min(l.Life(), l.FirstLease)
}
