// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/observe"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// maxKeys bounds a renewal script: 256 keys keep a server busy for some 0.4 ms, in which it serves no
	// other client; more saves next to nothing.
	maxKeys = 256
	// RenewalsPerLife divides a life into renewal intervals: a lease is renewed when a third of it is over.
	RenewalsPerLife = 3
	// minPatience and maxPatience bound how long a batch waits for its reply.
	minPatience = 10 * time.Millisecond
	maxPatience = 2 * time.Second
)

// BatchRunner runs renewals; *wire.Runner is one.
type BatchRunner interface {
	RunByKey(ctx context.Context, batch wire.KeyedCall) []wire.KeyedReply
}

// Keeper renews the terms of one session: it keeps leases alive at the server, and ends them in the process when they can no longer be
// trusted.
//
// # Guarantees
//
//  1. A term ends locally before its key can end on the server: its deadline counts from the
//     moment before the acquire or renewal was sent, less an allowance (see timers.Allowance).
//  2. Alive compares the clock itself: its first call after a stopped process, a suspended host or
//     a frozen server finds the loss, whatever the state of the timers. A term ends by itself within
//     half a second after a suspended host resumes, because package timers counts that time.
//  3. A term that has ended stays ended: a late reply revives nothing.
//  4. After Stop no renewal of the term is sent. One that is on its way finds its hold gone,
//     because the script touches its own hold only and creates nothing.
//  5. One bad key fails one term, not its batch. A term does not end because a script with keys of several
//     slots says that its hold is gone: the server is asked again for that hold alone.
//
// # States
//
//	          due, batch sent                    reply: alive
//	idle --------------------> renewing ---------------------------> idle
//	  |                           | failed, or no reply: again after a twelfth of the life, or halfway to the deadline
//	  |                           +----------------------------------> idle
//	  |                           | reply: gone
//	  | deadline                  v
//	  +-----------------------> ended <--- deadline --- renewing
//	  |                           ^
//	  +---------- Stop -----------+
//
// Recheck sends a term from idle to renewing at once, with a question instead of a renewal: a reply other
// than gone leaves the deadline and the next renewal as they were.
//
// # Time
//
//	deadline = sent + life - timers.Allowance(life)
//	due      = sent + life/3, rounded down to a fiftieth of life/3; the first renewal with a life, or with
//	           a longer one, anywhere in the last half of life/3, so that locks acquired at once are not
//	           renewed at once
//
// due is reached as soon as either clock says so, like the deadline: after a host was suspended, little may be left.
//
// life is what the server granted last. A term begins with its first lease, or with what its grant gives, and
// counts with that until its first renewal has a reply.
//
// The rounding makes terms of one length fall due together: the terms of one tick are one batch of up to 256
// keys a script. It is one key a script in a cluster, and wherever scripts may not have keys of several slots.
//
// # Ownership
//
// A term has one timer, for its next event: renewal, retry or deadline. It fires on the driver's
// goroutine; batches are sent on goroutines that exist for one batch. The lock of a term is held for field
// access only: neither the owner nor the server is called under it.
type Keeper struct {
	runner   BatchRunner
	timers   *timers.Timers
	observer *observe.Observer // nil without one
	due      *timers.Collector[*Term]
	ctx      context.Context //nolint:containedctx // ends at Close, for the batches in flight
	cancel   context.CancelFunc
	wg       sync.WaitGroup // batches in flight
}

// NewKeeper returns a Keeper that starts nothing by itself. o is notified of renewals, if it is not nil.
func NewKeeper(server BatchRunner, t *timers.Timers, o *observe.Observer) *Keeper {
	k := &Keeper{runner: server, timers: t, observer: o}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.due = timers.NewCollector(t, k.renewAll)
	return k
}

// Close ends renewing and waits for the batches in flight, whose calls it ends. It waits longer if the client
// does not check the end of a context (see signalbox.Tune).
func (k *Keeper) Close() {
	k.cancel()
	k.due.Close()
	k.wg.Wait()
}

// renewal is one term with what is requested for it.
type renewal struct {
	term  *Term
	life  time.Duration // the life to request; 0 requests no renewal, only whether the hold exists
	given time.Duration // the life that the server gave last
	left  time.Duration // the time until the deadline
}

// renewAll sends the terms of a tick, the earliest deadline first. Every script is a batch
// of its own, on a goroutine of its own, so that one that hangs holds up no other.
func (k *Keeper) renewAll(terms []*Term) {
	now := timers.Now()
	wanted := make(map[*scripts.Script][]renewal, 1)
	for _, t := range terms {
		if r, ok := t.nextRequest(now); ok {
			wanted[t.config.Script] = append(wanted[t.config.Script], r)
		}
	}
	for script, all := range wanted {
		slices.SortFunc(all, func(a, b renewal) int { return cmp.Compare(a.left, b.left) })
		for chunk := range slices.Chunk(all, maxKeys) {
			k.wg.Go(func() { k.renew(now, cmp.Or(script, proto.HolderRenewScript), chunk) })
		}
	}
}

// renew sends one batch, made at now, and gives the replies to its terms.
func (k *Keeper) renew(now timers.Instant, script *scripts.Script, terms []renewal) {
	// One renewal interval of the current life: a later reply is worth less than the retry. A shorter patience would not
	// suffice for a young hold whose server is far away. There is one timer for the batch, not one for each
	// lock.
	patience := maxPatience
	for _, r := range terms {
		if r.life > 0 {
			patience = min(patience, max(min(r.life, r.given)/RenewalsPerLife, minPatience))
		}
	}
	ctx, cancel := context.WithTimeout(k.ctx, patience)
	defer cancel()
	var failed error
	sent := timers.Now()
	for i, said := range k.runner.RunByKey(ctx, batchOf(script, terms)) {
		switch r := terms[i]; {
		case said.Err != nil || said.Value < 0:
			r.term.failed()
		case said.Value == gone:
			r.term.Gone()
		default:
			r.term.Extended(r.life, sent)
			r.term.kept(sent, said.Value == int64(wire.Marked))
		}
		failed = cmp.Or(failed, said.Err)
	}
	k.report(terms, now, failed)
}

// kept notifies the owner of a hold that may be idle, or wants to learn of waiters.
func (t *Term) kept(sent timers.Instant, isMarked bool) {
	if owner, is := t.owner.(KeptOwner); is && (t.config.MayBeIdle || t.config.Wanted) {
		owner.OnKept(sent, isMarked)
	}
}

// report notifies the observer how late the latest of these renewals is, the one with the smallest share of its life left. They were
// requested at from, and the server has replied, unless err says why not.
func (k *Keeper) report(terms []renewal, from timers.Instant, err error) {
	if k.observer == nil {
		return
	}
	took := timers.Mono() - from.Mono()
	var leases int
	var lag, lease time.Duration
	worst := math.Inf(-1)
	for _, r := range terms {
		if r.life == 0 {
			continue // a question, which lengthens nothing
		}
		leases++
		late := r.late() + took
		if share := float64(late) / float64(r.given); share > worst {
			worst, lag, lease = share, late, r.given
		}
	}
	if leases > 0 {
		k.observer.OnRenewed(leases, max(lag, 0), lease, err)
	}
}

// late returns how far past its due time the renewal was requested: a renewal is due a third of the life after the last one.
func (r *renewal) late() time.Duration {
	return r.given - timers.Allowance(r.given) - r.left - r.given/RenewalsPerLife
}

// gone is what a script that renews returns for a hold that does not exist.
const gone = 0

func batchOf(script *scripts.Script, terms []renewal) wire.KeyedCall {
	c := wire.KeyedCall{
		Script: script, Keys: make([]string, 0, len(terms)), PerKey: make([]string, 0, 2*len(terms)), MaxKeys: maxKeys, LossValue: gone, HasLoss: true,
	}
	life, text := terms[0].life, wire.Milliseconds(terms[0].life)
	for _, r := range terms {
		if r.life != life { // most are equal
			life, text = r.life, wire.Milliseconds(r.life)
		}
		key, hold := r.term.owner.Renewed()
		c.Keys = append(c.Keys, key)
		c.PerKey = proto.Renewal{Hold: hold, TTLMS: text}.AppendTo(c.PerKey)
	}
	return c
}
