// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// Two facts about the server decide how calls are sent. They are independent of each other.
//
//   - Clustered: the client knows the nodes of a cluster. So there are sharded channels, a connection for each
//     node, and redirections.
//   - SpansSlots: one script may have keys of several slots. A cluster refuses such a script. So does one
//     endpoint in front of many shards, although its client knows no nodes; or it sends the script to the shard of
//     the first key, where the other keys seem to be missing.
//
// SpansSlots is false until a probe has shown it. The probe writes a key in each of probeKeys equal parts of the
// slots, one by one, and one script deletes them all. If that script finds all of them, one server has all slots.

// Clustered reports whether the client knows the nodes of a cluster.
func (r *Runner) Clustered() bool { return r.client.Mode() == rueidis.ClientModeCluster }

const (
	// probeKeys is how many keys a probe has. Two shards of equal size escape it once in 2^31 probes, whatever they
	// do with slots; a shard with a range of 1/32 of the slots never does.
	probeKeys = 32
	// probeTimeout is how long a probe waits for its replies, and how long a key of it lives at the most.
	probeTimeout = time.Second
	// shortProbeWait is how long SpansSlots waits for the probe that runs. Renewals wait for it, so it is short beside the shortest
	// lease.
	shortProbeWait = 20 * time.Millisecond
	// The pause before the next probe, after one that has not shown that scripts may span slots. It doubles, up to
	// longestSilentPause without a reply and longestRefusedPause with one.
	firstProbePause, longestSilentPause, longestRefusedPause = time.Second, time.Minute, 10 * time.Minute
	// certainFor is how long CertainlySpansSlots relies on one probe.
	certainFor = time.Minute
)

// slotSpan is the state of a Runner's probes for SpansSlots.
type slotSpan struct {
	runner *Runner

	prefix string // the prefix of the keys of probes; "" if there are no probes
	shown  atomic.Bool
	ctx    context.Context //nolint:containedctx // the context of the probes, which ends at Close
	cancel context.CancelFunc

	mu struct {
		sync.Mutex
		running   chan struct{} // closed when the probe that runs has ended; nil if none runs
		shownAt   time.Duration // the monotonic time at which the last successful probe was sent
		nextProbe time.Duration // the monotonic time from which the next probe may be sent
		pause     time.Duration // the pause after the last probe that failed; 0 if none has failed
	}
}

func (s *slotSpan) init(r *Runner) {
	s.runner = r
	s.ctx, s.cancel = context.WithCancel(context.Background())
}

// SetProbePrefix lets the Runner find out whether scripts may span slots, by short-lived keys that begin with prefix.
// Call it before the first call. Without it SpansSlots is false.
func (s *slotSpan) SetProbePrefix(prefix string) { s.prefix = prefix + "shards:" }

// SpansSlots reports whether one script may have keys of several slots, as far as is known. If that is not known,
// it starts a probe if one is due, and waits for the one that runs, as long as ctx lasts and for shortProbeWait at most: the
// calls that follow are then fewer. It is for scripts whose replies show if it is no longer true: see RunByKey.
func (s *slotSpan) SpansSlots(ctx context.Context) bool {
	if s.shown.Load() {
		return true
	}
	ended := s.probe(timers.Now())
	if ended == nil {
		return false
	}
	wait := time.NewTimer(shortProbeWait)
	defer wait.Stop()
	select {
	case <-ended:
	case <-wait.C:
	case <-ctx.Done():
	}
	return s.shown.Load()
}

// CertainlySpansSlots is SpansSlots for scripts that would do harm at the wrong shard. It relies only on a probe
// of the last minute: what stands behind an address may change. Otherwise it waits for a probe, as long as ctx lasts
// and for probeTimeout at most.
func (s *slotSpan) CertainlySpansSlots(ctx context.Context) bool {
	if s.isSpanCertain() {
		return true
	}
	ended := s.probe(timers.Now())
	if ended == nil {
		return false
	}
	select {
	case <-ended:
		return s.isSpanCertain()
	case <-ctx.Done():
		return false
	}
}

func (s *slotSpan) isSpanCertain() bool {
	if !s.shown.Load() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return timers.Mono()-s.mu.shownAt < certainFor
}

// SpanFailed records the error of a script with keys of several slots, which may be due to that, and reports whether
// the script is worth sending again at once, for the keys of one slot at a time.
func (s *slotSpan) SpanFailed(err error) (again bool) {
	again = mayBeOfSlots(err)
	if again || !IsReplyError(err) {
		s.spanUncertain()
	}
	return again
}

// spanUncertain records that a script with keys of several slots failed, or missed a key. From now on keys of different
// slots go in different scripts, until another probe.
func (s *slotSpan) spanUncertain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shown.Swap(false) {
		return
	}
	now := timers.Mono()
	if now-s.mu.shownAt > longestRefusedPause {
		s.mu.pause = 0 // the last success was long ago
	}
	s.postponeProbeLocked(now, longestSilentPause)
}

// postponeProbeLocked puts off the next probe.
func (s *slotSpan) postponeProbeLocked(now, most time.Duration) {
	s.mu.pause = max(s.mu.pause, min(max(2*s.mu.pause, firstProbePause), most))
	s.mu.nextProbe = now + s.mu.pause
}

// probe returns a channel that is closed when the probe that runs has ended. It starts one if one is due, and
// returns nil otherwise.
func (s *slotSpan) probe(now timers.Instant) <-chan struct{} {
	if s.prefix == "" || !s.runner.IsConnected() || s.runner.Clustered() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.running != nil {
		return s.mu.running
	}
	if s.mu.pause > 0 && now.Mono() < s.mu.nextProbe || s.ctx.Err() != nil {
		return nil
	}
	ended := make(chan struct{})
	s.mu.running = ended
	s.runner.detached.start(func() {
		defer close(ended)
		shown, replied := s.sendProbe(s.ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.mu.running = nil
		s.shown.Store(shown)
		switch {
		case shown:
			s.mu.shownAt = now.Mono()
		case replied:
			s.postponeProbeLocked(timers.Mono(), longestRefusedPause)
		default:
			s.postponeProbeLocked(timers.Mono(), longestSilentPause)
		}
	})
	return ended
}

// sendProbe sends a probe in one pipeline. replied says that the server, or what stands before it, replied to the
// script, or closed the connection, and that the slots of its keys may be the reason.
func (s *slotSpan) sendProbe(ctx context.Context) (shown, replied bool) {
	ctx, cancel := errs.WithTimeout(ctx, probeTimeout)
	defer cancel()
	keys := probeKeysIn(s.prefix + rand.Text() + ":")
	calls := make([]Call, 0, len(keys)+1)
	for _, key := range keys {
		calls = append(calls, Call{Command: "SET", Keys: []string{key}, Args: []string{"1", "PX", Milliseconds(probeTimeout)}})
	}
	calls = append(calls, Call{Script: ProbeSlotsScript, Keys: keys})
	outcomes := s.runner.runManyUnwatched(ctx, timers.Mono(), calls) // a refusal is a reply: one script may not have these keys
	last := &outcomes[len(keys)]
	if last.Err == nil && last.Reply.Int(0) == probeKeys {
		return true, true
	}
	if slices.ContainsFunc(outcomes, func(o Outcome) bool { return IsReplyError(o.Err) && !mayBeOfSlots(o.Err) }) {
		return false, false // full memory, for example, which says nothing about slots
	}
	switch {
	case IsReplyError(last.Err), last.Err == nil:
	case errors.Is(last.Err, errs.ErrNoReply), isConnectRefusal(last.Err):
		return false, false
	default:
		return false, true // it closed the connection, which the next probe would do as well
	}
	for i, key := range keys {
		calls[i] = Call{Command: "DEL", Keys: []string{key}}
	}
	s.runner.RunMany(ctx, calls[:len(keys)]) // or they end by themselves
	return false, true
}

// probeKeysIn returns the keys of a probe, one in each of probeKeys equal parts of the slots.
func probeKeysIn(prefix string) []string {
	keys := make([]string, probeKeys)
	for n, left := 0, probeKeys; left > 0; n++ {
		key := prefix + strconv.Itoa(n)
		if part := int(Slot(key)) * probeKeys / Slots; keys[part] == "" {
			keys[part] = key
			left--
		}
	}
	return keys
}

// mayBeOfSlots reports whether the refusal of a script with keys of several slots may be due to that. If so, the script
// is worth sending again for one key at a time. A refusal that any key would meet is not.
func mayBeOfSlots(err error) bool {
	return IsReplyError(err) && !begins(wordsOf(err), keyIndependent)
}

// keyIndependent lists the prefixes of refusals that do not depend on the keys.
//
//nolint:gochecknoglobals // a constant table
var keyIndependent = []string{
	"LOADING", "READONLY", "MASTERDOWN", "BUSY", "NOREPLICAS", "MISCONF", "OOM", "max number of clients", "NOAUTH", "WRONGPASS", "DENIED",
}

// Slots is how many slots a cluster has.
const Slots = 1 << 14

// Slot returns the slot of a key: the CRC-16 of its Tag, with the polynomial 0x1021.
func Slot(key string) uint16 {
	var crc uint16
	tag := Tag(key)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % Slots
}

// Tag returns what a cluster hashes of a key: the text between its first { and the next }, or the whole key
// if that is empty.
func Tag(key string) string {
	if _, rest, opened := strings.Cut(key, "{"); opened {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
