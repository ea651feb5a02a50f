// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

func TestBadInputIsOneLineAndExitCode2(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	for line, says := range map[string]string{
		"":                                  "command is missing",
		"frobnicate":                        "unknown command",
		"run":                               "NAME -- COMMAND",
		"run a":                             "NAME -- COMMAND",
		"run a --":                          "NAME -- COMMAND",
		"rum":                               "did you mean run?",
		"run -n backup true":                `-n, --permits "backup": it must be a whole number; to fail at once if the lock is held, use -w 0`,
		"run --lease soon a true":           `--lease "soon": it must be a duration such as 5s or 1m, or a number of seconds`,
		"run -w":                            "-w needs a value",
		"run --shared=often a true":         "it must be true or false",
		"run --frob":                        "unknown flag --frob; signalbox run --help",
		"run a --frob true":                 "unknown flag --frob",
		"run a b -- true":                   "NAME -- COMMAND",
		"run -- a true":                     "NAME -- COMMAND",
		"run --frob a -- true":              "unknown flag",
		"run -n 2 a -- true":                "use -w 0",
		"run -n 3 --capacity 2 a -- a":      "more than --capacity",
		"run -n 0 --capacity 2 a -- ls":     "not valid",
		"run --capacity 0 a -- true":        "more than --capacity",
		"run --shared --exclusive a -- ls":  "exclude each other",
		"run --shared --capacity 1 a -- ls": "exclude each other",
		"run -w -1 a -- true":               "of 0 or more",
		"run -w soon a -- true":             "of 0 or more",
		"run -w NaN a -- true":              "of 0 or more",
		"run -E 256 a -- true":              "from 0 to 255",
		"run --min -1s a -- true":           "from 0 to",
		"run --grace 11s a -- true":         "a third",
		"run --lease 1ms a -- true":         "from 100ms",
		"run " + strings.Repeat("x", 600) + " -- true": "not valid",
		"wait":                            "arg",
		"wait a b":                        "arg",
		"break --yes":                     "arg",
		"break a":                         "--yes",
		"--prefix a{ wait a":              "not valid",
		"--redis redis://h?frob=1 wait a": "it is number 1",
		"--redis http://h wait a":         "redis://",
		"--redis redis:db:6379 wait a":    "no // behind its scheme",
		"--redis redis://:6379 wait a":    "no host",
		"--ca /nowhere wait a":            "rediss://",
		"--password-file /nowhere wait a": "no such file",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			start(t, url, strings.Fields(line)...).ended(2, says)
		})
	}
	start(t, url, "wait", "").ended(2, "empty")
	start(t, "", "wait", "a").ended(2, "SIGNALBOX_REDIS")
}

// A flag that was given without text is refused, whichever it is.
func TestAnEmptyFlagIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "user", "password-file", "ca", "cert", "server-name", "sentinel-master", "sentinel-password-file", "prefix"} {
		start(t, "redis://127.0.0.1:1", "--"+name+"=", "wait", "a").ended(2, "--"+name+" has no value")
	}
}

func TestOtherFailuresHaveCodesOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range []struct {
		code      int
		says, url string
		args      []string
	}{
		{69, "refused", "redis://127.0.0.1:1", []string{"run", "a", "--", "true"}},
		{69, "refused", "redis://127.0.0.1:1", []string{"wait", "a"}},
		{69, "refused", "redis://127.0.0.1:1", []string{"break", "-y", "a"}},
		{71, "WRONGPASS", strings.Replace(server.URL(), "//", "//x:geheim@", 1), []string{"run", "a", "--", "true"}},
		{126, "permission denied", server.URL(), []string{"run", "a", "--", "/etc/passwd"}},
		{126, "exec format error", server.URL(), []string{"run", "a", "--", textFile(t, 0o700)}},
		{127, "not found", server.URL(), []string{"run", "a", "--", "no-such-program"}},
		{127, "not found", server.URL(), []string{"run", "a", "--", "/no/such/program"}},
	} {
		p := start(t, c.url, c.args...)
		p.ended(c.code, c.says)
		require.NotContains(t, p.output(), "geheim")
	}
	start(t, server.URL(), "wait", "-w", "0", "a").ended(0) // nothing of them was left
}

// textFile returns a file that no kernel can execute.
func textFile(tb testing.TB, mode os.FileMode) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "file")
	require.NoError(tb, os.WriteFile(path, []byte("geheim\r\nno program\n"), mode))
	return path
}

// Passwords come from the environment or from a file, which win over the URL.
func TestPasswordsNeedNoFlag(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "cron", "on", ">geheim", "~*", "&*", "+@all")
	server.MustDo(t, "ACL", "SETUSER", "default", ">geheim")
	file := textFile(t, 0o600)
	for _, env := range [][]string{
		{"SIGNALBOX_PASSWORD=geheim"},
		{"SIGNALBOX_PASSWORD=geheim\n", "SIGNALBOX_USER=cron\r\n"},
		{"SIGNALBOX_PASSWORD=geheim", "SIGNALBOX_USER=cron"},
		{"SIGNALBOX_PASSWORD_FILE=" + file, "SIGNALBOX_USER=cron"},
		{"SIGNALBOX_PASSWORD_FILE=" + file, "SIGNALBOX_PASSWORD=wrong"},
	} {
		startWith(t, environment(server.URL(), env...), "wait", "a").ended(0)
	}
	start(t, server.URL(), "--user", "cron", "--password-file", file, "wait", "a").ended(0)
	wrong := strings.Replace(server.URL(), "//", "//cron:wrong@", 1)
	start(t, wrong, "wait", "a").ended(71, "WRONGPASS")
	start(t, wrong, "--password-file", file, "wait", "a").ended(0)
	startWith(t, environment(server.URL(), "SIGNALBOX_PASSWORD=geheim"), "--help").code()
	help := startWith(t, environment(server.URL(), "SIGNALBOX_PASSWORD=geheim"), "run", "--help")
	for line := range help.lines {
		require.NotContains(t, line, "geheim")
		require.NotContains(t, line, server.Addr())
	}
}

// A password is rotated while commands run: the file has the new one, and the server ends the connections of the user. Each command
// connects again. A file that is empty by then costs a line, and no connection.
func TestRotatedPasswordIsReadAnew(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	held := locktest.Must(t, reentrant.New(s, "held").Lock)
	t.Cleanup(func() { _ = held.Unlock() })
	_, err := countdown.New(s, "latch").Start(locktest.Context(t), 1)
	require.NoError(t, err)
	for _, command := range []string{"run a -- cat", "shards serve --count 1 g -- cat", "wait latch", "run held -- true", "serve --every 100ms --listen 127.0.0.1:0", "shards watch g"} {
		serves := strings.HasPrefix(command, "serve")
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			file, user := filepath.Join(t.TempDir(), "password"), rand.Text()
			rotate := func(password, text string) {
				require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
				server.MustDo(t, "ACL", "SETUSER", user, "on", "resetpass", ">"+password, "~*", "&*", "+@all")
			}
			rotate("first", "first\n")
			p := startWith(t, environment(server.URL(), "SIGNALBOX_USER="+user, "SIGNALBOX_PASSWORD_FILE="+file), strings.Fields(command)...)
			connected := func() {
				t.Helper()
				redistest.Await(t, "a connection, and a subscription", func() bool {
					if serves && p.metric("signalbox_up") != "1" { // it connects when a list is wanted, and subscribes to nothing
						return false
					}
					all, isText := server.MustDo(t, "CLIENT", "LIST").(string)
					return isText && slices.ContainsFunc(strings.Split(all, "\n"), func(client string) bool {
						return strings.Contains(client, " user="+user+" ") && (serves || !strings.Contains(client, " sub=0 "))
					})
				})
			}
			says := func(words string) {
				t.Helper()
				redistest.Await(t, words, func() bool {
					if serves {
						p.metric("signalbox_up")
					}
					return strings.Contains(p.output(), words)
				})
			}
			connected()
			rotate("second", "second\n")
			server.MustDo(t, "CLIENT", "KILL", "USER", user)
			connected()
			require.NotContains(t, p.output(), "password file")

			rotate("second", "")
			server.MustDo(t, "CLIENT", "KILL", "USER", user)
			connected()
			says("the file is empty")
			rotate("third", "third\n")
			server.MustDo(t, "CLIENT", "KILL", "USER", user)
			connected()
			says("can be read again")
			require.Equal(t, 1, strings.Count(p.output(), "the file is empty"), p.output())
			require.NotContains(t, p.output(), "second")
			p.signal(syscall.SIGTERM)
			p.code()
		})
	}
}

// The client takes the password at the sentinels once. Connections that it makes later have the one of then.
func TestRotatedPasswordOfSentinelsIsReadAnew(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "sentinels take seconds to start")
	sentinel := redistest.StartSentinel(t)
	file := filepath.Join(t.TempDir(), "password")
	rotate := func(password string) {
		for _, s := range sentinel.Sentinels() { // the new one beside the old one
			s.MustDo(t, "ACL", "SETUSER", "watch", "on", ">"+password, "allchannels", "+@all")
		}
		require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
		for _, s := range sentinel.Sentinels() {
			s.MustDo(t, "ACL", "SETUSER", "watch", "resetpass", ">"+password)
			s.MustDo(t, "CLIENT", "KILL", "USER", "watch")
		}
	}
	connected := func() {
		t.Helper()
		redistest.Await(t, "a connection to a sentinel", func() bool {
			return slices.ContainsFunc(sentinel.Sentinels(), func(s *redistest.Server) bool {
				all, isText := s.MustDo(t, "CLIENT", "LIST").(string)
				return isText && strings.Contains(all, " user=watch ")
			})
		})
	}
	rotate("first")
	p := start(t, sentinel.Sentinels()[0].URL(), "--sentinel-master", redistest.MasterSet, "--sentinel-user", "watch", "--sentinel-password-file", file,
		"run", "a", "--", "sh", "-c", "echo in; cat")
	p.line()
	for _, password := range []string{"second", "third"} {
		connected()
		rotate(password)
	}
	connected()
	p.stdin.Close()
	p.ended(0)
}

func TestFlagsNameEveryTopology(t *testing.T) {
	t.Parallel()
	secure := redistest.Start(t, redistest.WithTLS())
	start(t, secure.URL(), "wait", "a").ended(69, "certificate")
	start(t, secure.URL(), "--ca", authority(t, secure), "wait", "a").ended(0)

	redistest.Slow(t, "sentinels and a cluster take seconds to start")
	sentinel := redistest.StartSentinel(t)
	watch := sentinel.Sentinels()
	start(t, watch[0].URL(), "--node", watch[1].Addr(), "--sentinel-master", redistest.MasterSet, "run", "a", "--", "true").ended(0)
	start(t, watch[0].URL(), "run", "a", "--", "true").ended(2, "the server is a sentinel")
	start(t, watch[0].URL(), "--sentinel-master", "nothing", "wait", "a").ended(2, "watches no primary")
	start(t, sentinel.Primary(t).URL(), "--sentinel-master", redistest.MasterSet, "wait", "a").ended(2, "not a sentinel")

	cluster := redistest.StartCluster(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		start(t, cluster.Servers()[0].URL(), "run", name, "--", "true").ended(0)
	}
}

// authority writes the certificate that signed the server's into a file.
func authority(tb testing.TB, server *redistest.Server) string {
	tb.Helper()
	conn, err := tls.Dial("tcp", server.Addr(), server.TLSConfig())
	require.NoError(tb, err)
	defer conn.Close()
	chain := conn.ConnectionState().VerifiedChains[0]
	path := filepath.Join(tb.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[len(chain)-1].Raw})
	require.NoError(tb, os.WriteFile(path, text, 0o600))
	return path
}

func TestPrefixAndDigestsNameTheKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, c := range []struct {
		option signalbox.SessionOption
		env    string
		flags  []string
	}{
		{signalbox.WithPrefix("x:"), "", []string{"--prefix", "x:"}},
		{signalbox.WithPrefix("y:"), "SIGNALBOX_PREFIX=y:", nil},
		{signalbox.WithHashedNames(), "", []string{"--hashed"}},
	} {
		held := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server, c.option), "a").Lock)
		env := environment(server.URL(), c.env)
		startWith(t, env, append(c.flags, "run", "-q", "-w", "0", "a", "--", "true")...).ended(75)
		start(t, server.URL(), "run", "-w", "0", "a", "--", "true").ended(0)
		require.NoError(t, held.Unlock())
	}
}

func TestVersionAndCompletion(t *testing.T) {
	t.Parallel()
	version := start(t, "", "version")
	require.Regexp(t, `^signalbox \S+ .*go1\.`, version.line())
	version.ended(0)
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		p := start(t, "", "completion", shell)
		p.line()
		p.ended(0)
	}
}
