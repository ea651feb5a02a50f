// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// refusalCase is one way in which a server refuses.
type refusalCase struct {
	user     string // the user whose sessions are made to fail; caller if it is empty
	options  func(t *testing.T) []redistest.Option
	begin    func(t *testing.T, f *refusalFixture)
	end      func(t *testing.T, f *refusalFixture)
	sentinel error
	words    string // the text in every refused call's error
	dial     string // the text of the error of Dial, if it is another one
	// passes: renewals and releases are served all the same.
	passes bool
	// blind says that no client can read keys meanwhile.
	blind bool
}

// dump is the file in which a server saves; a folder of this name prevents that.
const dump = "dump.rdb"

func refusals() map[string]refusalCase {
	return map[string]refusalCase{
		"OOM": {
			begin:    func(t *testing.T, f *refusalFixture) { f.set(t, "maxmemory", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "maxmemory", "0") },
			sentinel: signalbox.ErrRefused, words: "OOM command not allowed", passes: true,
		},
		"MISCONF": {
			options: func(t *testing.T) []redistest.Option {
				return []redistest.Option{redistest.WithArgs("--dir", t.TempDir(), "--dbfilename", dump, "--save", "36000 1000000")}
			},
			begin: func(t *testing.T, f *refusalFixture) {
				reply := f.do(t, "CONFIG", "GET", "dir")
				setting, err := reply.AsStrMap()
				require.NoError(t, err)
				require.NoError(t, os.MkdirAll(filepath.Join(setting["dir"], dump, "in the way"), 0o700))
				f.do(t, "BGSAVE")
				redistest.Await(t, "a save that fails", func() bool {
					info, err := f.server.Do("INFO", "persistence")
					return err == nil && strings.Contains(fmt.Sprint(info), "rdb_last_bgsave_status:err")
				})
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "stop-writes-on-bgsave-error", "no") },
			sentinel: signalbox.ErrRefused, words: "MISCONF",
		},
		"NOREPLICAS": {
			begin:    func(t *testing.T, f *refusalFixture) { f.set(t, "min-replicas-to-write", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "min-replicas-to-write", "0") },
			sentinel: signalbox.ErrRefused, words: "NOREPLICAS Not enough good replicas",
		},
		"READONLY": {
			begin:    func(t *testing.T, f *refusalFixture) { f.do(t, "REPLICAOF", "127.0.0.1", "1") },
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "REPLICAOF", "NO", "ONE") },
			sentinel: signalbox.ErrRefused, words: "READONLY You can't write", dial: "it is a replica",
		},
		"LOADING": {
			begin: load,
			// The rest is loaded at once.
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "key-load-delay", "0") },
			sentinel: signalbox.ErrRefused, words: "LOADING", blind: true,
		},
		"BUSY": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "busy-reply-threshold", "20")
				inTheBackground(t, f, "EVAL", "while true do end", 0)
				redistest.Await(t, "a busy server", func() bool {
					_, err := f.server.Do("GET", "x")
					return err != nil && strings.HasPrefix(err.Error(), "BUSY")
				})
			},
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "SCRIPT", "KILL") },
			sentinel: signalbox.ErrRefused, words: "BUSY", blind: true,
		},
		"MaxClients": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "maxclients", "1")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "maxclients", "1000") },
			sentinel: signalbox.ErrRefused, words: "max number of clients reached",
		},
		"NOAUTH": {
			user: "default",
			begin: func(t *testing.T, f *refusalFixture) {
				f.set(t, "requirepass", "a password that no client knows")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.set(t, "requirepass", "") },
			sentinel: signalbox.ErrDenied, words: "NOAUTH",
		},
		"PasswordRotated": {
			begin: func(t *testing.T, f *refusalFixture) {
				f.do(t, "ACL", "SETUSER", caller, "resetpass", ">another password")
				f.cut(t)
			},
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, ">"+callersPassword) },
			sentinel: signalbox.ErrDenied, words: "WRONGPASS",
		},
		"ScriptsDenied": {
			begin:    func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, "-eval", "-evalsha") },
			end:      func(t *testing.T, f *refusalFixture) { f.do(t, "ACL", "SETUSER", caller, "+eval", "+evalsha") },
			sentinel: signalbox.ErrDenied, words: "'evalsha' command (grant +evalsha)",
		},
	}
}

func noOptions(*testing.T) []redistest.Option { return nil }

// load makes the server load its keys, slowly: three hundred a second at most, for longer than all that is tried meanwhile.
func load(t *testing.T, f *refusalFixture) {
	t.Helper()
	f.do(t, "DEBUG", "POPULATE", "30000", "filler", "100")
	f.set(t, "loading-process-events-interval-bytes", "1024", "key-load-delay", "3000")
	inTheBackground(t, f, "DEBUG", "RELOAD")
	redistest.Await(t, "a loading server", func() bool {
		_, err := f.server.Do("GET", "x")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
}

// inTheBackground sends a command whose reply comes after the refusal has ended.
func inTheBackground(t *testing.T, f *refusalFixture, words ...any) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = f.server.Do(words...) // killed, or too slow for Do
	}()
	t.Cleanup(func() { <-done })
}
