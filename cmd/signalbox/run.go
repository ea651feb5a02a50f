// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

const runHelp = `Acquire the lock NAME, run COMMAND while it is held, and release it. The exit code is
COMMAND's, or 128+n if signal n ended it.

COMMAND runs in a process group of its own, with SIGNALBOX_NAME and SIGNALBOX_TOKEN in its
environment. Standard input, output and error are passed through, and signals are forwarded
to the group; before COMMAND runs, SIGHUP, SIGINT, SIGQUIT and SIGTERM end the wait. If the lock cannot be renewed, the group gets SIGTERM, and SIGKILL when --grace
is over, which is before another process can acquire the lock. If the lock is taken away, the
group gets SIGTERM at once, and may run beside the next holder for --grace at most.

COMMAND also inherits the environment of signalbox, with its passwords, so that a signalbox in it finds
the server. To keep a password from it write "signalbox run NAME -- env -u SIGNALBOX_PASSWORD COMMAND",
or name a file by --password-file: then only its path is there.

A program that cannot be ended, such as sudo by a user who is not root, is reported once a
minute, and the lock is held or acquired again until it ends. Write "sudo signalbox run",
not "signalbox run NAME -- sudo".

Exit codes of its own:

    2     a flag, a name or a URL is not valid
    69    the server cannot be reached, or refuses for now
    70    the lock was lost while COMMAND ran, and COMMAND was ended
    71    anything else, such as a right that is missing, or no memory for COMMAND
    75    another holder had the lock for all of --wait; -E changes this code
    126   COMMAND cannot be executed
    127   COMMAND was not found`

const runExample = `  signalbox run nightly-report -- ./report.sh
  signalbox run -w 0 backup -- tar cf /backup/all.tar /srv   # do not wait
  signalbox run --min 1m -w 0 tick -- ./short-job            # hosts whose clocks differ
  signalbox run --capacity 3 exports -- ./export.sh          # at most three at a time`

// The default of --grace is defaultGrace, or a third of a lease for which that is too long.
const (
	defaultLease = 30 * time.Second
	defaultGrace = 5 * time.Second
	graceShare   = 3 // --grace is at most this share of the lease: renewals need the rest
)

// The limits of --lease, which are those of signalbox.WithRenewedLease, and of --min.
const (
	shortestLease = 100 * time.Millisecond
	longestLease  = 24 * time.Hour
	longestMin    = 30 * 24 * time.Hour
)

type runFlags struct {
	server *serverFlags

	wait      waitLimit
	conflict  uint8
	quiet     bool
	permits   int
	capacity  int
	shared    bool
	exclusive bool
	min       time.Duration
	lease     time.Duration
	grace     time.Duration

	layout string // the flag of all commands that chooses a layout of other clients, or ""

	name    string // the arguments
	command []string
}

func newRun(s *serverFlags) *cobra.Command {
	f := &runFlags{server: s}
	cmd := &cobra.Command{
		Use:     "run [flags] NAME [--] COMMAND [ARGUMENT...]",
		GroupID: groupLock,
		Short:   "Hold a lock while a program runs",
		Long:    runHelp,
		Example: runExample,
		Args:    f.check,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // those of COMMAND are its own
	flags.VarP(&f.wait, "wait", "w", "how long to wait for the lock, such as 5s or 0.5; 0 does not wait (default: for ever)")
	flags.Uint8VarP(&f.conflict, "conflict-exit-code", "E", codeHeld, "exit `code` if another holder had the lock for all of --wait")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing if another holder had the lock for all of --wait")
	flags.IntVar(&f.capacity, "capacity", 0, "acquire a permit of the semaphore NAME, which has `n` permits if it is new")
	flags.IntVarP(&f.permits, "permits", "n", 1, "acquire `n` permits; needs --capacity")
	flags.BoolVar(&f.shared, "shared", false, "acquire the read-write lock NAME to read")
	flags.BoolVar(&f.exclusive, "exclusive", false, "acquire the read-write lock NAME to write")
	durationVar(flags, &f.min, "min", 0, "hold the lock for at least this long, 720h at most, and do not end before")
	durationVar(flags, &f.lease, "lease", defaultLease, "how long the lock outlives this host if it dies, from 100ms to 24h")
	durationVar(flags, &f.grace, "grace", defaultGrace, "how long COMMAND has between SIGTERM and SIGKILL; at most a third of --lease")
	cmd.RunE = s.with(f.run)
	return cmd
}

// check reports what is wrong with the command line.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	flags := cmd.Flags()
	var err error
	if f.name, f.command, err = splitCommand(cmd, args); err != nil {
		return err
	}
	if !flags.Changed("grace") {
		f.grace = min(defaultGrace, f.lease/graceShare)
	}
	f.layout, _ = f.server.layout.chosen()
	switch {
	case flags.Changed("permits") && !flags.Changed("capacity"):
		return badUsage("-n is the number of permits, and needs --capacity; to fail at once if the lock is held, use -w 0")
	case flags.Changed("capacity") && (f.shared || f.exclusive), f.shared && f.exclusive:
		return badUsage("--capacity, --shared and --exclusive exclude each other")
	case flags.Changed("capacity") && f.permits > f.capacity:
		return badUsage("-n %d is more than --capacity %d", f.permits, f.capacity)
	case f.min < 0 || f.min > longestMin:
		return badUsage("--min %v: it must be from 0 to %v", f.min, longestMin)
	case f.lease < shortestLease || f.lease > longestLease:
		return badUsage("--lease %v: it must be from %v to %v", f.lease, shortestLease, longestLease)
	case f.grace < 0 || f.grace > f.lease/graceShare:
		return badUsage("--grace %v: it must be from 0 to a third of --lease %v", f.grace, f.lease)
	}
	return nil
}

// splitCommand takes NAME and COMMAND out of the arguments. Flags may stand before NAME, and behind it before COMMAND. A "--" between
// NAME and COMMAND may be left out, if COMMAND has no "--" either: "run my job -- ./program" is a name without quotes.
func splitCommand(cmd *cobra.Command, args []string) (name string, command []string, err error) {
	usage := badUsage("%s needs a name and a command: %[1]s NAME -- COMMAND; a name with blanks needs quotes", cmd.Name())
	if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
		return "", nil, usage
	}
	name, command = args[0], args[1:]
	separated := false
	if len(command) > 0 && strings.HasPrefix(command[0], "-") {
		flags := cmd.Flags()
		if err := flags.Parse(command); err != nil {
			return "", nil, plainFlagError(cmd, err)
		}
		if help, err := flags.GetBool("help"); err == nil && help {
			return "", nil, pflag.ErrHelp
		}
		command, separated = flags.Args(), flags.ArgsLenAtDash() == 0
	}
	if len(command) == 0 || !separated && slices.Contains(command, "--") {
		return "", nil, usage
	}
	return name, command, nil
}

// run does what runHelp says.
func (f *runFlags) run(cmd *cobra.Command, session *signalbox.Session, _ []string) error {
	name, command := f.name, f.command
	path, err := resolveProgram(command[0])
	if err != nil {
		return err
	}
	dropSignals()
	lease, err := f.acquire(cmd.Context(), session, name)
	if err != nil {
		if errors.Is(err, signalbox.ErrHeld) && cmd.Context().Err() == nil {
			return f.refused(cmd.Context(), session, name)
		}
		return err
	}
	lock, _ := f.calls(session, name)
	j := &job{
		title: fmt.Sprintf("run %q", name), path: path, command: command, lease: lease, acquired: time.Now(),
		env:       []string{"SIGNALBOX_NAME=" + name, tokenVariable(lease)},
		reacquire: lock.reacquire, min: f.min, grace: f.grace, stderr: f.server.notices,
	}
	return j.run(cmd.Context())
}

// tokenVariable is the variable of the environment with the fencing token.
func tokenVariable(l lease) string { return "SIGNALBOX_TOKEN=" + strconv.FormatUint(l.Token(), 10) }

// refused is the error of a run that another holder kept from the lock for all of --wait.
func (f *runFlags) refused(ctx context.Context, session *signalbox.Session, name string) error {
	if f.quiet {
		return &exitError{int(f.conflict), nil}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	holders := "when last asked" // it was released since, or the server is silent
	if busy, err := holdersOf(ctx, session, name); err == nil && len(busy) > 0 {
		holders = describe(busy[0])
	}
	return &exitError{int(f.conflict), fmt.Errorf("run %q: %w %s", name, signalbox.ErrHeld, holders)}
}

// lookUp finds the program before anything is acquired for it.
func resolveProgram(program string) (string, error) {
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
		return path, nil
	case isMissing(err):
		return "", &exitError{codeNotFound, fmt.Errorf("%q: command not found", program)}
	default:
		return "", &exitError{codeCannotRun, err}
	}
}

func isMissing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// cannotStart returns the error of a program that was found, and was not started. A script whose interpreter is missing, or
// a program for another system, cannot be run. If the system is short of something, as processes, it can be run later.
func cannotStart(err error) error {
	if isBusy(err) {
		return &exitError{codeFailed, err}
	}
	return &exitError{codeCannotRun, err}
}

func (f *runFlags) acquire(ctx context.Context, s *signalbox.Session, name string) (signalbox.Lease, error) {
	lock, try := f.calls(s, name)
	if !f.wait.set {
		return lock(ctx)
	}
	if f.wait.d == 0 {
		return try(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, f.wait.d)
	defer cancel()
	return lock(ctx)
}

type acquireFunc func(context.Context) (signalbox.Lease, error)

// reacquire is the call as a job needs it.
func (a acquireFunc) reacquire(ctx context.Context) (lease, error) { return a(ctx) }

// calls returns the call that waits for what the flags ask for, and the one that does not wait.
func (f *runFlags) calls(s *signalbox.Session, name string) (lock, try acquireFunc) {
	options := []signalbox.LockOption{signalbox.WithRenewedLease(f.lease)}
	if f.layout == "" { // elsewhere a hold has its whole lease from the start
		options = append(options, signalbox.WithFirstLease(f.lease))
	}
	switch {
	case f.capacity > 0:
		permits := semaphore.New(s, name, f.capacity, options...).Permits(f.permits)
		return permits.Lock, permits.TryLock
	case f.shared:
		lock := rwlock.New(s, name, options...)
		return lock.RLock, lock.TryRLock
	case f.exclusive:
		lock := rwlock.New(s, name, options...)
		return lock.Lock, lock.TryLock
	default:
		lock := reentrant.New(s, name, options...)
		return lock.Lock, lock.TryLock
	}
}
