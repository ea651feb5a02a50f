// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryReplyTypeIsReadWithItsBytes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"+OK\r\n":                         "OK",
		"-ERR no\r\n":                     ReplyError("ERR no"),
		":-7\r\n":                         int64(-7),
		"$3\r\na\r\n\r\n":                 "a\r\n",
		"$0\r\n\r\n":                      "",
		"$-1\r\n":                         nil,
		"*-1\r\n":                         nil,
		"*0\r\n":                          []any{},
		"*2\r\n:1\r\n*1\r\n+x\r\n":        []any{int64(1), []any{"x"}},
		"_\r\n":                           nil,
		"#t\r\n":                          "t",
		",1.5\r\n":                        "1.5",
		"(12345678901234567890\r\n":       "12345678901234567890",
		"!3\r\nE x\r\n":                   ReplyError("E x"),
		"=5\r\ntxt:a\r\n":                 "txt:a",
		"~1\r\n:1\r\n":                    []any{int64(1)},
		"%1\r\n+k\r\n:1\r\n":              []any{"k", int64(1)},
		">2\r\n+message\r\n+c\r\n":        []any{"message", "c"},
		"|1\r\n+ttl\r\n:1\r\n$1\r\nx\r\n": "x",
	} {
		r := bufio.NewReader(strings.NewReader(text + "+next\r\n"))
		f, err := readFrame(r)
		require.NoError(t, err, text)
		require.Equal(t, want, f.plain(), text)
		require.Equal(t, text, string(f.raw))
		f, err = readFrame(r)
		require.NoError(t, err, text)
		require.Equal(t, "next", f.text, text)
		_, err = readFrame(r)
		require.Equal(t, io.EOF, err, text)
	}
}

func TestWhatIsNotRESPIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"x\r\n", "\r\n", "+\n", "$x\r\n", "$-2\r\n", "$1\r\nab\r\n", "$99999999999\r\n", "*99999999\r\n", "*1\r\n?\r\n",
	} {
		_, err := readFrame(bufio.NewReader(strings.NewReader(text)))
		require.ErrorIs(t, err, errProtocol, "%q", text)
	}
	for _, text := range []string{"+OK", "$3\r\nab", "*2\r\n:1\r\n"} {
		_, err := readFrame(bufio.NewReader(strings.NewReader(text)))
		require.Equal(t, io.ErrUnexpectedEOF, err, "%q", text)
	}
}

func TestRequestsAreReadInBothForms(t *testing.T) {
	t.Parallel()
	const text = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING  hi\r\n"
	r := bufio.NewReader(strings.NewReader(text))
	first, firstRaw, err := readRequest(r)
	require.NoError(t, err)
	require.Equal(t, []string{"GET", "k"}, first)
	second, secondRaw, err := readRequest(r)
	require.NoError(t, err)
	require.Equal(t, []string{"PING", "hi"}, second)
	require.Equal(t, text, string(firstRaw)+string(secondRaw))
	_, _, err = readRequest(r)
	require.Equal(t, io.EOF, err)
}

// FuzzFramesKeepTheirBytes holds whatever bytes come: what was read is what was sent.
func FuzzFramesKeepTheirBytes(f *testing.F) {
	f.Add([]byte("*2\r\n$1\r\na\r\n|1\r\n+k\r\n_\r\n:1\r\n"))
	f.Add([]byte(">3\r\n+message\r\n$1\r\nc\r\n$-1\r\n%1\r\n#t\r\n(1\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := bufio.NewReader(bytes.NewReader(text))
		var read []byte
		for {
			frame, err := readFrame(r)
			if err != nil {
				break
			}
			read = append(read, frame.raw...)
		}
		require.True(t, bytes.HasPrefix(text, read))
	})
}
