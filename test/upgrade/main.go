// SPDX-License-Identifier: Apache-2.0

// Command upgrade is one process of several that share every kind of lock, each with a version of the library of its own:
// this file is built with the modules as they are tagged, and with the checkout, by make release-check.
//
//	upgrade URL,URL,URL DIR PEERS I COMMAND
//
// The first server has all kinds; redlock needs three. Processes meet in the folder DIR: who is in makes a folder there, which
// fails if another is in. COMMAND is a signalbox command, whose run shares a lock with the library.
//
// Processes with an even number have one version, those with an odd number the other. Nothing begins before all of them are
// connected. Each lock has to go from one version to the other.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/election"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/multilock"
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/redlock"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/shards"
)

const (
	rounds  = 20 // of each kind, in each process
	permits = 2
	count   = 12 // shards of the group
	limit   = 2 * time.Minute
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	err := run(ctx, os.Args[1:])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

// peer is this process.
type peer struct {
	url, dir, command string
	peers, index      int
	sessions          []*signalbox.Session // one for each server
}

func run(ctx context.Context, args []string) error {
	if len(args) != 5 {
		return errors.New("usage: upgrade URL,URL,URL DIR PEERS I COMMAND")
	}
	peers, err1 := strconv.Atoi(args[2])
	index, err2 := strconv.Atoi(args[3])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	p := &peer{dir: args[1], command: args[4], peers: peers, index: index}
	for url := range strings.SplitSeq(args[0], ",") {
		session, err := signalbox.Dial(ctx, url)
		if err != nil {
			return err
		}
		defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
		p.sessions = append(p.sessions, session)
	}
	p.url, _, _ = strings.Cut(args[0], ",")
	s := p.sessions[0]
	if err := errors.Join(p.in("connected-"+args[3]), p.await(ctx, "connected-*", peers)); err != nil {
		return err
	}
	all := map[string]func(ctx context.Context) error{
		"latch": p.latch, "once": p.once, "shards": p.shards, "permits": p.permits, "readers": p.readers, "run": p.run, "leads": p.leads, "breaks": p.breaks,
	}
	for name, mu := range map[string]interface {
		Lock(ctx context.Context) (signalbox.Lease, error)
	}{
		"lock":      reentrant.New(s, "lock"),
		"fair":      fair.New(s, "fair"),
		"writer":    rwlock.New(s, "readers"),
		"both":      multilock.New(reentrant.New(s, "both/1"), fair.New(s, "both/2")),
		"candidate": fair.New(s, "elected"),
		"quorum":    redlock.New(p.sessions, "quorum", signalbox.WithRenewedLease(5*time.Second), redlock.GreatestLease(5*time.Second)),
		"setnx":     reentrant.New(s, "setnx", signalbox.WithLayout(setnx.Layout())),
		"redisson":  reentrant.New(s, "redisson", signalbox.WithLayout(redisson.Layout())),
		"commanded": reentrant.New(s, "commanded"),
		"warm":      reentrant.New(s, "warm", signalbox.WithKeepWarm(time.Minute)), // released when another one wants it
	} {
		all[name] = func(ctx context.Context) error { return p.exclude(ctx, name, mu.Lock) }
	}
	all["elected"] = func(ctx context.Context) error { // campaigns beside "candidate"
		e := election.New(s, "elected")
		for range rounds {
			term, err := e.Campaign(ctx)
			if err == nil {
				err = errors.Join(p.in("candidate"), term.SetValue(ctx, strconv.Itoa(p.index)), p.out("candidate"), term.Resign()) //nolint:contextcheck // it takes none
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for name, work := range all {
		group.Go(func() error {
			if err := work(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// in says that this process has what is excluded by that name. It fails if another has it.
func (p *peer) in(name string) error { return os.Mkdir(filepath.Join(p.dir, name), 0o700) }

func (p *peer) out(name string) error { return os.Remove(filepath.Join(p.dir, name)) }

// await waits until n folders or files have names of that pattern.
func (p *peer) await(ctx context.Context, pattern string, n int) error {
	for ctx.Err() == nil {
		found, err := filepath.Glob(filepath.Join(p.dir, pattern))
		if err != nil || len(found) >= n {
			return err
		}
		pause(ctx, 20*time.Millisecond)
	}
	return fmt.Errorf("%d of %s did not appear: %w", n, pattern, context.Cause(ctx))
}

// pause waits for another process to do something.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (p *peer) exclude(ctx context.Context, name string, lock func(context.Context) (signalbox.Lease, error)) error {
	last := filepath.Join(p.dir, name+".last")
	for range rounds {
		lease, err := lock(ctx)
		if err != nil {
			return err
		}
		if err := p.in(name); err != nil {
			return err
		}
		if text, err := os.ReadFile(last); err == nil {
			var before uint64
			var index int
			if _, err := fmt.Sscan(string(text), &before, &index); err != nil {
				return err
			}
			if before >= lease.Token() && name != "quorum" { // whose tokens rise if it is Fenced
				return fmt.Errorf("token %d after %d", lease.Token(), before)
			}
			if index%2 != p.index%2 {
				_ = p.in(name + ".shared") // unless it is there already
			}
		}
		err = errors.Join(os.WriteFile(last, fmt.Appendf(nil, "%d %d", lease.Token(), p.index), 0o600), p.out(name), lease.Unlock())
		if err != nil {
			return err
		}
	}
	return p.await(ctx, name+".shared", 1)
}

// permits holds at most as many folders as there are permits.
func (p *peer) permits(ctx context.Context) error {
	for range rounds {
		err := semaphore.New(p.sessions[0], "permits", permits).Do(ctx, 1, func(ctx context.Context, _ signalbox.Lease) error {
			mine := "permit-" + strconv.Itoa(p.index)
			err := p.in(mine)
			if held, _ := filepath.Glob(filepath.Join(p.dir, "permit-*")); len(held) > permits {
				err = errors.Join(err, fmt.Errorf("%d holders of %d permits", len(held), permits))
			}
			pause(ctx, time.Millisecond)
			return errors.Join(err, p.out(mine))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readers read while no writer is in.
func (p *peer) readers(ctx context.Context) error {
	for range rounds {
		err := rwlock.New(p.sessions[0], "readers").RDo(ctx, func(context.Context, signalbox.Lease) error {
			if _, err := os.Stat(filepath.Join(p.dir, "writer")); err == nil {
				return errors.New("a writer is in")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return rwlock.New(p.sessions[0], "readers").Do(ctx, func(ctx context.Context, lease signalbox.Lease) error {
		err := errors.Join(p.in("writer"), p.out("writer"))
		return errors.Join(err, rwlock.New(p.sessions[0], "readers").Downgrade(ctx, lease))
	})
}

// leads is a leader of each version, whose value all others read. A process asks the first to hand over to the second.
func (p *peer) leads(ctx context.Context) error {
	e := election.New(p.sessions[0], "seen")
	for leader := range 2 {
		value := strconv.Itoa(leader)
		if p.index == leader {
			term, err := e.Campaign(ctx)
			if err == nil {
				err = errors.Join(term.SetValue(ctx, value), p.await(ctx, "saw-"+value+"-*", p.peers-1))
			}
			if err == nil && leader == 0 {
				select {
				case <-term.Done():
				case <-ctx.Done():
				}
				if !errors.Is(term.Err(), election.ErrHandover) {
					err = fmt.Errorf("not asked to hand over: %w", term.Err())
				}
			}
			if err := errors.Join(err, term.Resign()); err != nil { //nolint:contextcheck // it takes none
				return err
			}
			continue
		}
		if leader == 1 && p.index == p.peers-1 {
			for _, err := e.Handover(ctx, ""); err != nil; _, err = e.Handover(ctx, "") {
				if !errors.Is(err, election.ErrNoCandidate) {
					return err
				}
				pause(ctx, 20*time.Millisecond)
			}
		}
		for found, err := range e.Observe(ctx) {
			if err != nil {
				return err
			}
			if found.Value == value {
				break
			}
		}
		if err := p.in("saw-" + value + "-" + strconv.Itoa(p.index)); err != nil {
			return err
		}
	}
	return nil
}

// breaks lets a process of each version end by force what one of the other version holds, as it sees it in a list.
func (p *peer) breaks(ctx context.Context) error {
	s := p.sessions[0]
	for holder := range 2 {
		name := "broken-" + strconv.Itoa(holder)
		switch p.index {
		case holder:
			lease, err := reentrant.New(s, name).Lock(ctx)
			if err != nil {
				return err
			}
			select {
			case <-lease.Done():
			case <-ctx.Done():
			}
			if err := lease.Unlock(); !errors.Is(err, signalbox.ErrLost) {
				return fmt.Errorf("the lock was broken: %w", err)
			}
		case 1 - holder:
			for seen := false; !seen; pause(ctx, 20*time.Millisecond) {
				entries, err := inspect.Name(ctx, s, name)
				if err != nil {
					return err
				}
				for _, entry := range entries {
					if entry.Kind != inspect.Reentrant {
						return fmt.Errorf("%s is listed as %s", name, entry.Kind)
					}
					seen = true
					if err := inspect.BreakSeen(ctx, s, entry); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// latch opens when all processes have counted down.
func (p *peer) latch(ctx context.Context) error {
	latch := countdown.New(p.sessions[0], "latch")
	round, err := latch.Round(ctx)
	if p.index == 0 {
		round, err = latch.Start(ctx, p.peers)
	}
	for errors.Is(err, signalbox.ErrNoRound) && ctx.Err() == nil {
		pause(ctx, 20*time.Millisecond)
		round, err = latch.Round(ctx)
	}
	if err != nil {
		return err
	}
	if _, err := round.CountDown(ctx, strconv.Itoa(p.index)); err != nil {
		return err
	}
	return round.Wait(ctx)
}

// once has one process run the function of a key, and the others read its outcome.
func (p *peer) once(ctx context.Context) error {
	for i := range rounds {
		key := "once-" + strconv.Itoa(i)
		value, _, err := once.New(p.sessions[0], key, once.Keep(time.Hour)).Do(ctx, func(context.Context, signalbox.Lease) ([]byte, error) {
			return []byte(key), p.in(key) // for good
		})
		if err == nil && string(value) != key {
			err = fmt.Errorf("%s has the value %q", key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// shards is a member until every process has had a shard, and again after one of them has made twice as many.
func (p *peer) shards(ctx context.Context) error {
	ctx, done := context.WithCancel(ctx)
	defer done()
	group := shards.New(p.sessions[0], "group", shards.Count(count))
	if err := group.Check(); err != nil {
		return err
	}
	errs := make(chan error, 1)
	go func() {
		errs <- group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
			name := "shard-" + strconv.Itoa(s.Index())
			if err := p.in(name); err != nil {
				return fmt.Errorf("two owners: %w", errors.Join(err, os.WriteFile(filepath.Join(p.dir, "failed"), nil, 0o600)))
			}
			_ = os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("owner-%d-%d", s.Count(), p.index)), nil, 0o600)
			<-ctx.Done()
			return p.out(name)
		})
	}()
	failed := p.await(ctx, fmt.Sprintf("owner-%d-*", count), p.peers)
	if p.index == 0 && failed == nil {
		failed = group.Resize(ctx, 2*count)
	}
	if failed == nil {
		failed = p.await(ctx, fmt.Sprintf("owner-%d-*", 2*count), p.peers)
	}
	if _, err := os.Stat(filepath.Join(p.dir, "failed")); err == nil {
		failed = errors.Join(failed, errors.New("a shard had two owners"))
	}
	done()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		failed = errors.Join(failed, err)
	}
	return failed
}

// run has the command hold the lock while a program is in.
func (p *peer) run(ctx context.Context) error {
	at := filepath.Join(p.dir, "commanded")
	for range rounds / 4 {
		command := exec.CommandContext(ctx, p.command, "run", "commanded", "--", "sh", "-c", `mkdir "$0" && rmdir "$0"`, at)
		command.Env = append(os.Environ(), "SIGNALBOX_REDIS="+p.url)
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}
