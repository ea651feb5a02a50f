// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// scanTimeout is how long one node may take for one page of keys.
const scanTimeout = 2 * time.Second

// Scan is a request for the keys that match.
type Scan struct {
	Match string // a glob pattern
	Type  string // the type of the keys; "" means any
	Count int    // the number of keys that the server examines for a page
}

// Cursor is the position of a scan over the keys of one server. The zero Cursor is the start.
type Cursor struct {
	at    uint64 // the cursor of SCAN
	runID string // the run_id of the server's process; "" if it is not known
}

// IsStart reports whether c is the start of a scan. The cursor after the last page is the start too.
func (c Cursor) IsStart() bool { return c.at == 0 }

// ErrOtherServer says that the server was restarted or replaced since it returned a cursor, which is not valid any more.
var ErrOtherServer = fmt.Errorf("%w: the server was restarted or replaced", errs.ErrRefused)

// Page is the reply to one SCAN.
type Page struct {
	Keys []string
	Next Cursor
	Size int64 // the number of keys of the server; 0 if it is not known, or the page is not the first one
}

// Nodes returns the nodes whose keys Page reads: each primary of a cluster, or "" for a server that is alone.
func (r *Runner) Nodes(ctx context.Context) ([]string, error) {
	if err := r.Connect(ctx); err != nil {
		return nil, err
	}
	if !r.Clustered() {
		return []string{""}, nil
	}
	return r.primaries(ctx, r.client.Nodes())
}

// errUnknownNode says that a node has slots, and that the client has not called it yet, or takes it for dead.
var errUnknownNode = fmt.Errorf("%w: the client does not reach this node", errs.ErrRefused)

// Page returns the keys of a node that match, from a cursor on. The server examines about Count keys, and serves others between
// two pages. A key that exists from the first page of a scan to the last one is in at least one page. It is one round
// trip, which is counted on Pace(node).
func (r *Runner) Page(ctx context.Context, node string, scan Scan, from Cursor) (Page, error) {
	client := r.client
	if node != "" {
		if client = r.client.Nodes()[node]; client == nil {
			return Page{}, errUnknownNode
		}
	}
	callerCtx := ctx
	ctx, cancel := errs.WithTimeout(ctx, scanTimeout)
	defer cancel()
	var read pageReply
	for range resends { // each time on a new connection
		begun := timers.Mono()
		read = readPage(r.doDetached(ctx, client, pageCommands(client, scan, from)...))
		r.Pace(node).countPage(timers.Mono(), begun, read.busy)
		if !errors.Is(read.err, errUnsent) && !errors.Is(read.err, errReadsReplica) {
			break
		}
	}
	switch {
	case read.err != nil && callerCtx.Err() != nil:
		return Page{}, errs.Ended(callerCtx)
	case read.err != nil:
		return Page{}, errs.OfCall(ctx, Explain(read.err))
	case from.at != 0 && from.runID != "" && read.Next.runID != "" && from.runID != read.Next.runID:
		return Page{}, ErrOtherServer
	}
	return read.Page, nil
}

// errReadsReplica says that the server is a replica. It refuses no SCAN, and what it has may be old.
var errReadsReplica = fmt.Errorf("%w: READONLY the server is a replica, and what it lists may be old", errs.ErrRefused)

// pageCommands returns SCAN between two TIMEs, which say how long the server worked, INFO, which says who the server is, and
// HELLO, which says whether it is a replica and needs no right. A connection of a Connector that reads so is left.
// They are on one connection, so one server executes all of them. Arbitrary: the client repeats a command that it knows to be
// read-only for as long as its context lasts.
func pageCommands(client rueidis.Client, scan Scan, from Cursor) []rueidis.Completed {
	arbitrary := func(words ...string) rueidis.Completed {
		return client.B().Arbitrary(words[0]).Args(words[1:]...).Build()
	}
	words := []string{"SCAN", strconv.FormatUint(from.at, 10), "MATCH", scan.Match, "COUNT", strconv.Itoa(scan.Count)}
	if scan.Type != "" {
		words = append(words, "TYPE", scan.Type)
	}
	commands := []rueidis.Completed{arbitrary("TIME"), arbitrary(words...), arbitrary("TIME"), arbitrary("INFO", "server"), arbitrary("HELLO")}
	if from.at == 0 {
		commands = append(commands, arbitrary("DBSIZE"))
	}
	return commands
}

// pageReply is the content of the replies to pageCommands.
type pageReply struct {
	Page

	busy time.Duration // the time for which the server worked; 0 if it is not known
	err  error
}

// readPage reads the replies to pageCommands. All except that of SCAN may be missing, because a right or a command is missing.
func readPage(results []rueidis.RedisResult) (read pageReply) {
	if len(results) < 5 {
		return pageReply{err: ErrUnreadable}
	}
	entry, err := results[1].AsScanEntry()
	if err != nil {
		return pageReply{err: err}
	}
	read.Keys, read.Next.at = entry.Elements, entry.Cursor
	before, after := serverTime(results[0]), serverTime(results[2])
	if before > 0 && after > before {
		read.busy = after - before
	}
	info, _ := results[3].ToString() // without it a server that replaces another one is not noticed
	if _, rest, found := strings.Cut(info, "run_id:"); found {
		read.Next.runID, _, _ = strings.Cut(rest, "\r\n")
	}
	if hello, err := results[4].AsMap(); err == nil { // a proxy may know none
		role := hello["role"]
		if word, _ := role.ToString(); word == "replica" || word == "slave" {
			return pageReply{busy: read.busy, err: errReadsReplica}
		}
	}
	if len(results) > 5 {
		read.Size, _ = results[5].AsInt64() // without it a list has no progress
	}
	return read
}

// serverTime reads the reply to TIME; 0 if it cannot be read.
func serverTime(result rueidis.RedisResult) time.Duration {
	parts, err := result.AsStrSlice()
	if err != nil || len(parts) != 2 {
		return 0
	}
	seconds, err1 := strconv.ParseInt(parts[0], 10, 32)
	micros, err2 := strconv.ParseInt(parts[1], 10, 32)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
}

// RunPaced is RunMany for keys of one node; the time that it takes is counted on Pace(node).
func (r *Runner) RunPaced(ctx context.Context, node string, calls []Call) []Outcome {
	begun := timers.Mono()
	outcomes := r.RunMany(ctx, calls)
	r.Pace(node).countCalls(timers.Mono(), begun)
	return outcomes
}

// doDetached sends commands without keys. It returns when ctx ends, also while the client connects.
func (r *Runner) doDetached(ctx context.Context, client rueidis.Client, commands ...rueidis.Completed) []rueidis.RedisResult {
	n := len(commands)
	return detach(ctx, &r.detached, func() []rueidis.RedisResult {
		return client.DoMulti(ctx, commands...)
	}, func(err error) []rueidis.RedisResult {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewResult(rueidis.RedisMessage{}, err)}, n)
	})
}

// primaries returns the addresses of the nodes that have slots, in order. If those that the servers name are not those
// that the client uses, as behind a proxy, it returns all nodes of the client.
func (r *Runner) primaries(ctx context.Context, nodes map[string]rueidis.Client) ([]string, error) {
	var failures []error
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		found, err := r.primariesNamedBy(ctx, node, nodes[node])
		for i, one := range found {
			found[i] = KnownAs(one, node, nodes)
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			failures = append(failures, fmt.Errorf("node %s: %w", node, err))
		case slices.ContainsFunc(found, func(one string) bool { return nodes[one] != nil }):
			return found, nil
		default:
			return slices.Sorted(maps.Keys(nodes)), nil
		}
	}
	if len(failures) == 0 {
		return nil, errs.Join(errs.ErrRefused, errors.New("the client knows no node of the cluster"))
	}
	return nil, errs.Join(failures...)
}

// errSlots is the error of a node whose reply cannot be read.
var errSlots = errors.New("the reply to CLUSTER SLOTS cannot be read")

// primariesNamedBy asks one node which nodes have slots.
func (r *Runner) primariesNamedBy(ctx context.Context, node string, client rueidis.Client) ([]string, error) {
	ctx, cancel := errs.WithTimeout(ctx, scanTimeout)
	defer cancel()
	ranges, err := r.doDetached(ctx, client, client.B().Arbitrary("CLUSTER", "SLOTS").Build())[0].ToArray()
	if err != nil {
		return nil, errs.OfCall(ctx, Explain(err))
	}
	host, _, _ := net.SplitHostPort(node)
	found := make(map[string]struct{})
	for i := range ranges {
		fields, err := ranges[i].ToArray() // first slot, last slot, primary, replicas
		if err != nil || len(fields) < 3 {
			return nil, errSlots
		}
		address, err := fields[2].ToArray() // host, port, id
		if err != nil || len(address) < 2 {
			return nil, errSlots
		}
		named, _ := address[0].ToString() // nil where the node does not know its own
		port, _ := address[1].AsInt64()
		if named == "" {
			named = host
		}
		found[net.JoinHostPort(named, strconv.FormatInt(port, 10))] = struct{}{}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

const (
	// paceShare is how many times the server's work for a list must pass: a list gets a tenth of the server's time.
	paceShare = 10
	// paceBurst is how long the server may work for a list before the first pause: a small server is listed without pauses.
	paceBurst = 50 * time.Millisecond
	// fixedWork is the server's time for a round trip that no measurement contains: reading and writing.
	fixedWork = 50 * time.Microsecond
	// maxWork bounds the work that is counted for one round trip, and so the pause after it.
	maxWork = 100 * time.Millisecond
	// maxPause bounds the pause after work that did not wait.
	maxPause = 2 * time.Second
)

// Pace holds what lists cost one server to a tenth of its time. All lists of a session share it. Over any time T the work of
// lists that wait is at most T/10 and a burst.
//
// What counts as work is how long the server worked for SCAN, by its own clock, and how long pipelines took beyond the shortest
// round trip. Both grow if the server is busy with others: then lists pause for longer.
type Pace struct {
	mu      sync.Mutex
	paid    time.Duration // the monotonic time at which the work so far will be a tenth of all time; 0 if there was no work
	fastest time.Duration // the shortest round trip; 0 if it is not known
}

// Pace returns the pace of a node, "" for a server that is alone.
func (r *Runner) Pace(node string) *Pace {
	p, _ := r.paces.LoadOrStore(node, new(Pace))
	return p.(*Pace) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// Pause returns how long a list has to wait before it asks this server again; 0 or less if it need not. Of two servers the one
// with the smaller value has done less for lists.
func (p *Pace) Pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paid == 0 {
		return -maxPause
	}
	return p.paid - timers.Mono() - paceShare*paceBurst
}

// Wait waits until a list may ask this server again.
func (p *Pace) Wait(ctx context.Context) error {
	for {
		pause := p.Pause()
		if pause <= 0 {
			return nil
		}
		if !Sleep(ctx, pause, nil) {
			return errs.Ended(ctx)
		}
	}
}

// Sleep waits for d, or until woken has a value. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration, woken <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-woken:
		return true
	case <-ctx.Done():
		return false
	}
}

// countPage counts a page, for which the server was busy; busy is 0 if that is not known.
func (p *Pace) countPage(now, begun, busy time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := now - begun
	if busy == 0 {
		p.countLocked(now, took)
		return
	}
	if trip := max(took-busy, 1); p.fastest == 0 || trip < p.fastest {
		p.fastest = trip
	}
	p.countLocked(now, busy)
}

func (p *Pace) countCalls(now, begun time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.countLocked(now, now-begun-p.fastest)
}

func (p *Pace) countLocked(now, work time.Duration) {
	work = min(max(work, 0)+fixedWork, maxWork)
	begin := now // a monotonic time may be negative
	if p.paid != 0 {
		begin = max(p.paid, now)
	}
	p.paid = min(begin+paceShare*work, now+paceShare*paceBurst+maxPause)
}
