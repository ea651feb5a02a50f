// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/words"
	"github.com/signalbox-go/signalbox/shards"
)

const shardsServeHelp = `Be a member of the group NAME, and run COMMAND for each shard that it owns. Hosts that do the same divide the shards
among each other. The group has the shards 0 to n-1 of --count, or those named by --shard. A group that exists keeps its shards until
all hosts have the same other --count or --shard; "signalbox shards sync" sets names at once.

COMMAND runs in a process group of its own, without standard input, with SIGNALBOX_GROUP, SIGNALBOX_SHARD (the name of the
shard), SIGNALBOX_INDEX (-1 if shards have names), SIGNALBOX_COUNT (0 if they have) and SIGNALBOX_TOKEN in its environment,
beside that of signalbox, as by run. When the shard is to move, the process group gets SIGTERM, and SIGKILL when --drain is over. The shard moves when no process of it is
left. If the lease cannot be renewed, it has --grace between the two, which is before another member can own the shard.

A COMMAND that ends is started again, after 0.1 s, and after up to 30 s if it fails again and again. If its exit code is 75, the
shard goes to another member, and not to this one for 30 s.

SIGTERM, SIGINT or SIGQUIT of signalbox gives all shards away, and ends it when all are released; so does SIGHUP when its
terminal is closed. Other signals are forwarded to the programs, as by run; SIGHUP too.

Exit codes: 128+n if signal n ended it, otherwise those of run.`

// defaultDrain is how long a program has that must stop since its shard moves.
const defaultDrain = 30 * time.Second

// codeElsewhere is the exit code of a program that gives its shard away: EX_TEMPFAIL.
const codeElsewhere = 75

// youngest is the age from which on a member has its whole lease, and youngGrace the third of the lease of one that has just joined.
const youngest, youngGrace = 12 * time.Second, time.Second

// longestDrain is the limit of --drain: the shard has no other owner for as long.
const longestDrain = 24 * time.Hour

type shardsServeFlags struct {
	server *serverFlags

	count  int
	names  []string
	value  string
	weight int
	limit  int
	lease  time.Duration
	grace  time.Duration
	drain  time.Duration

	group   string // the arguments
	command []string
}

// memberValueFlag is the flag of a member's value, which may be empty.
const memberValueFlag = "value"

func newShardsServe(s *serverFlags) *cobra.Command {
	f := &shardsServeFlags{server: s}
	cmd := &cobra.Command{
		Use:   "serve [flags] NAME [--] COMMAND [ARGUMENT...]",
		Short: "Run a program for each shard that this member owns",
		Long:  shardsServeHelp,
		Example: `  signalbox shards serve --count 16 orders -- ./consume.sh
  signalbox shards serve --shard eu --shard us regions -- ./report.sh`,
		Args: f.check,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // those of COMMAND are its own
	flags.IntVar(&f.count, "count", 0, "the group has `n` shards")
	flags.StringArrayVar(&f.names, "shard", nil, "`name` of a shard; can be repeated")
	flags.StringVar(&f.value, memberValueFlag, "", "what observers read of this member, such as its `address`")
	flags.IntVar(&f.weight, "weight", 1, "the part of this member, beside the weights of the others, from 1 to 1000")
	flags.IntVar(&f.limit, "limit", shards.MaxShards, "the most shards, and programs, of this member")
	durationVar(flags, &f.lease, "lease", shards.DefaultLease, "how long the shards outlive this host if it dies, from 5s to 24h")
	durationVar(flags, &f.grace, "grace", defaultGrace, "how long COMMAND has between SIGTERM and SIGKILL if the lease ends; at most a third of --lease")
	durationVar(flags, &f.drain, "drain", defaultDrain, "the same if the shard moves, or signalbox ends; at most 24h")
	cmd.RunE = s.with(f.run)
	return cmd
}

// check reports what is wrong with the command line.
func (f *shardsServeFlags) check(cmd *cobra.Command, args []string) (err error) {
	flags := cmd.Flags()
	if f.group, f.command, err = splitCommand(cmd, args); err != nil {
		return err
	}
	if !flags.Changed("grace") {
		f.grace = min(defaultGrace, f.lease/graceShare)
	}
	switch {
	case flags.Changed("count") == flags.Changed("shard"):
		return badUsage("serve needs --count, or --shard for each shard")
	case f.lease < shards.MinLease || f.lease > longestLease:
		return badUsage("--lease %v: it must be from %v to %v", f.lease, shards.MinLease, longestLease)
	case f.grace < 0 || f.grace > f.lease/graceShare:
		return badUsage("--grace %v: it must be from 0 to a third of --lease %v", f.grace, f.lease)
	case f.drain < 0 || f.drain > longestDrain:
		return badUsage("--drain %v: it must be from 0 to %v", f.drain, longestDrain)
	}
	return nil
}

// set returns what the group divides.
func (f *shardsServeFlags) set() shards.Set {
	if f.names != nil {
		return shards.Names(f.names...)
	}
	return shards.Count(f.count)
}

func (f *shardsServeFlags) run(cmd *cobra.Command, session *signalbox.Session, _ []string) error {
	path, err := resolveProgram(f.command[0])
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(cmd.Context()))
	defer end(nil)
	had := hasTerminal()
	signals := newRelay(func(s os.Signal) bool {
		number, is := s.(syscall.Signal)
		if !is || !ends(s) || number == syscall.SIGHUP && (!had || hasTerminal()) {
			return false
		}
		end(&signalError{number})
		return true
	})
	defer signals.close()
	// A signal that came before newRelay has ended the context of the command, and a later one may end it as well.
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	signals.start()
	programs := newReaper()
	defer programs.close()
	group := shards.New(session, f.group, f.set(), shards.Value(f.value), shards.Weight(f.weight), shards.Limit(f.limit), signalbox.WithRenewedLease(f.lease))
	err = group.Run(ctx, func(ctx context.Context, s shards.Shard) error {
		j := f.jobOf(s, path)
		err := f.serve(ctx, j, programs, signals)
		if err != nil && ctx.Err() == nil {
			j.warn(err.Error())
		}
		return err
	})
	if caught := new(signalError); errors.As(context.Cause(ctx), &caught) {
		return &exitError{code: caught.code()}
	}
	return &exitError{codeOf(sessionError{err}), err}
}

func (f *shardsServeFlags) jobOf(s shards.Shard, path string) *job {
	owned := &ownedShard{s, time.Now(), f.grace}
	return &job{
		title: fmt.Sprintf("shard %q of %q", s.Name(), f.group), path: path, command: f.command, lease: owned, grace: f.grace,
		keeps: "the shard is released when they have ended", stderr: f.server.notices,
		env: []string{
			"SIGNALBOX_GROUP=" + f.group, "SIGNALBOX_SHARD=" + s.Name(), "SIGNALBOX_INDEX=" + strconv.Itoa(s.Index()),
			"SIGNALBOX_COUNT=" + strconv.Itoa(s.Count()), tokenVariable(owned),
		},
		graceOf: func(lost error) time.Duration {
			switch {
			case !errors.Is(lost, signalbox.ErrLost):
				return f.drain
			case time.Since(owned.seen) < f.lease+youngest:
				return min(f.grace, youngGrace)
			default:
				return f.grace
			}
		},
	}
}

// serve runs the program once, and returns what the function of a shard returns.
func (f *shardsServeFlags) serve(ctx context.Context, j *job, programs *reaper, signals *relay) error {
	c, own, err := signals.begin(func() (*child, error) { return programs.start(j.path, j.command, j.env, nil) })
	if err != nil {
		return err
	}
	defer signals.remove(c)
	err = j.supervise(context.WithoutCancel(ctx), c, own)
	if errors.Is(err, signalbox.ErrLost) {
		_, _ = fmt.Fprintln(j.stderr, words.OneLine(err)) // the exit code of this command does not say it
	}
	code, _ := outcome(ctx, err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // it was ended
	case code == 0:
		return nil
	case code == codeElsewhere:
		return shards.Elsewhere(fmt.Errorf("the program ended with exit code %d: the shard goes to another member", code), 0)
	default:
		return fmt.Errorf("the program ended with exit code %d", code)
	}
}

// ownedShard is a shard as the lease of a job. Run releases it when the job is over.
type ownedShard struct {
	shards.Shard

	seen  time.Time // when this process learned that it owns the shard
	grace time.Duration
}

// Deadline is that of the shard, and --grace later: a job ends its program by --grace before the deadline of its lease, and
// the deadline of a shard is already a third of the lease before its end.
func (o *ownedShard) Deadline() time.Time {
	if at := o.Shard.Deadline(); !at.IsZero() {
		return at.Add(o.grace)
	}
	return time.Time{}
}

// Unlock does nothing.
func (*ownedShard) Unlock() error { return nil }
