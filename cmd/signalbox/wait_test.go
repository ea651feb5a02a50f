// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
)

func TestWaitEndsWhenNoProcessHoldsTheName(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	start(t, server.URL(), "wait", "a").ended(0)
	held := locktest.Must(t, reentrant.New(s, "a").Lock)
	start(t, server.URL(), "wait", "-w", "0", "a").ended(75, "held as reentrant by")
	start(t, server.URL(), "wait", "-w", "1ns", "a").ended(75, "held as reentrant by")
	start(t, server.URL(), "wait", "-w", "50ms", "a").ended(75, "held as reentrant by")
	p := start(t, server.URL(), "wait", "-w", "1h", "a")
	require.NoError(t, held.Unlock())
	p.ended(0)
	start(t, server.URL(), "wait", "a").ended(0)
	start(t, server.URL(), "wait", "-w", "1ns", "a").ended(0)

	reader := locktest.Must(t, rwlock.New(s, "rw").RLock)
	start(t, server.URL(), "wait", "-w", "0", "rw").ended(75, "rwlock")
	require.NoError(t, reader.Unlock())
	start(t, server.URL(), "wait", "rw").ended(0)

	latch := countdown.New(s, "latch")
	_, err := latch.Start(locktest.Context(t), 1)
	require.NoError(t, err)
	start(t, server.URL(), "wait", "-w", "0", "latch").ended(75, "1 of 1")
	start(t, server.URL(), "wait", "-w", "50ms", "latch").ended(75, "1 of 1")
	require.NoError(t, latch.Reset(locktest.Context(t)))
	start(t, server.URL(), "wait", "latch").ended(0)
}

// A latch's messages end the wait for it, whether its round opens or is reset.
func TestWaitForALatchListens(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for name, end := range map[string]func(countdown.Round, *countdown.Latch) error{
		"opens": func(r countdown.Round, _ *countdown.Latch) error {
			_, err := r.CountDown(locktest.Context(t), "1")
			return err
		},
		"reset": func(_ countdown.Round, l *countdown.Latch) error { return l.Reset(locktest.Context(t)) },
	} {
		latch := countdown.New(s, name)
		round, err := latch.Start(locktest.Context(t), 1)
		require.NoError(t, err)
		p := start(t, server.URL(), "wait", name)
		redistest.Await(t, "a subscription", func() bool { return len(server.MustDo(t, "PUBSUB", "CHANNELS", "*"+name+"*").([]any)) > 0 })
		require.NoError(t, end(round, latch))
		p.ended(0)
	}
}

func TestWaitContinuesWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	proxy := redistest.NewProxy(t, server.Addr())
	p := start(t, proxy.URL(), "wait", "a")
	redistest.Await(t, "polls", func() bool { return proxy.Requests() > 30 })
	proxy.Refuse()
	proxy.CutAll()
	require.NoError(t, held.Unlock())
	proxy.Accept()
	p.ended(0)
}

func TestWaitEndsAtASignal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	proxy := redistest.NewProxy(t, server.Addr())
	p := start(t, proxy.URL(), "wait", "a")
	redistest.Await(t, "polls", func() bool { return proxy.Requests() > 30 })
	p.signal(syscall.SIGINT)
	p.ended(130)
	require.NoError(t, held.Unlock())
}

func TestBreakEndsAHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	held := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	start(t, server.URL(), "break", "--kind", "semaphore", "-y", "a").ended(1, "no process holds it")
	start(t, server.URL(), "break", "--yes", "a").ended(0)
	start(t, server.URL(), "break", "--yes", "a").ended(1, "no process holds it")
	redistest.Receive(t, "the loss", held.Done())
	require.ErrorIs(t, held.Unlock(), signalbox.ErrLost)

	java := locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	permits, err := semaphore.New(java, "permits", 3).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	start(t, server.URL(), "break", "--redisson", "--yes", "permits").ended(0)
	redistest.Receive(t, "the loss", permits.Done())
	plain, err := semaphore.New(java, "plain", 3, semaphore.Plain()).Acquire(locktest.Context(t), 2)
	require.NoError(t, err)
	start(t, server.URL(), "break", "--redisson", "--yes", "plain").ended(2, "plain semaphore")
	require.NoError(t, plain.Unlock())
}

// The command is enough for an image: it runs as process 1 of a root that has nothing else.
func TestTheCommandAloneIsProcessOne(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the command is built once more, without C")
	}
	if os.Getuid() != 0 {
		t.Skip("another root takes root")
	}
	root, server := t.TempDir(), redistest.Start(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(root, "signalbox"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	// What each container has beside its image.
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	if err := syscall.Mknod(filepath.Join(root, "dev", "null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skip("this host makes no device:", err)
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("/signalbox", args...) //nolint:noctx // it gets a signal
		c.Env, c.Dir = []string{"SIGNALBOX_REDIS=" + server.URL()}, "/"
		c.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL,
			Credential: &syscall.Credential{Uid: 65532, Gid: 65532}, // the user of the Dockerfile
		}
		return c
	}
	if out, err := command("version").CombinedOutput(); err != nil {
		t.Skipf("this host makes no PID namespace: %v %s", err, out)
	}
	out, err = command("run", "backup", "--", "/signalbox", "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "go1.")

	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0"},
		{"shards", "serve", "--count", "1", "group", "--", "/signalbox", "run", "shard", "--", "/signalbox", "version"},
	} {
		c := command(args...)
		output, err := c.StdoutPipe()
		require.NoError(t, err)
		c.Stderr = c.Stdout
		require.NoError(t, c.Start())
		line, err := bufio.NewReader(output).ReadString('\n')
		require.NoError(t, err)
		require.Regexp(t, "serving http|go1", line)
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait()
		require.Equal(t, 128+int(syscall.SIGTERM), c.ProcessState.ExitCode(), args)
	}
}
