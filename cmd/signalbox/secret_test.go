// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What is wrong with a file that was good costs one line, and one when it is good again; the last good secret is used meanwhile.
func TestSecretFileKeepsTheLastGoodSecret(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	write := func(text string) func() error { return func() error { return os.WriteFile(path, []byte(text), 0o600) } }
	remove := func() error { return os.Remove(path) }
	n := newNotices(new(bytes.Buffer))
	f := &secretFile{what: "password file", path: path, least: 3, notices: n}
	_, err := f.read(t.Context())
	require.ErrorContains(t, err, "no such file")
	for _, c := range []struct {
		change       func() error
		secret, line string // a part of the line; "" for none
	}{
		{write("first\r\nsecond\n"), "first", ""},
		{write(""), "first", "the file is empty"},
		{write("\n"), "first", ""},
		{write("fi"), "first", "it has 2 characters, and needs 3 or more"},
		{remove, "first", "no such file"},
		{write("third"), "third", "can be read again"},
		{write("fourth\n"), "fourth", ""},
		{remove, "fourth", "no such file"},
		{func() error { return os.Mkdir(path, 0o700) }, "fourth", "is a directory"},
		{func() error { return syscall.Rmdir(path) }, "fourth", "no such file"},
		{write("fifth"), "fifth", "can be read again"},
		{write("\ufeffsixth"), "fifth", "a byte-order mark or a zero byte"},
		{write("\xff\xfes\x00i\x00x\x00t\x00h\x00"), "fifth", ""}, // UTF-16
		{write("sixth"), "sixth", "can be read again"},
	} {
		require.NoError(t, c.change())
		for range 2 {
			secret, err := f.read(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.secret, secret)
		}
		lines := said(n)
		if c.line == "" {
			require.Empty(t, lines)
			continue
		}
		require.Len(t, lines, 1)
		require.Contains(t, lines[0], c.line)
		require.NotContains(t, lines[0], c.secret)
	}
}

// A file that hangs at reading costs a connection a second; then the last good secret is used, and one line names the file.
func TestSecretFileThatHangsCostsASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newNotices(new(bytes.Buffer))
		f := &secretFile{what: "password file", path: "/far/secret", notices: n}
		hangs, line := make(chan struct{}), "first"
		read := func() (string, error) {
			return f.readBy(t.Context(), func(string, func()) (string, bool, error) {
				<-hangs
				return line, true, nil
			})
		}
		_, err := read()
		require.ErrorContains(t, err, `password file "/far/secret": reading it takes longer than 1s`)
		close(hangs)
		for hung, want := range []string{"first", "first", "first", "second"} {
			if hung == 1 {
				hangs, line = make(chan struct{}), "second"
			}
			if hung == 3 {
				close(hangs)
			}
			begun := time.Now()
			secret, err := read()
			require.NoError(t, err)
			require.Equal(t, want, secret)
			require.LessOrEqual(t, time.Since(begun), time.Second)
			require.Len(t, said(n), map[int]int{1: 1, 3: 1}[hung])
		}
	})
}

// A signal ends a command that waits for a pipe to which no program writes.
func TestSignalEndsTheReadOfAPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	f := &secretFile{path: path, notices: newNotices(new(bytes.Buffer))}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := f.read(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, os.WriteFile(path, []byte("geheim\n"), 0o600)) // and the goroutine that reads ends
}
