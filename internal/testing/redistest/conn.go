// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// ReplyError is an error that the server replied, in its words.
type ReplyError string

// Error returns the reply.
func (e ReplyError) Error() string { return string(e) }

// target is the address of a server, and how to connect to it.
type target struct {
	addr string
	tls  *tls.Config // nil: in plain
}

// dial connects within limit.
func (t target) dial(limit time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: limit}
	if t.tls == nil {
		return dialer.Dial("tcp", t.addr)
	}
	return tls.DialWithDialer(dialer, "tcp", t.addr, t.tls)
}

// do sends one command over a connection of its own and returns the reply: a string, an
// int64, nil, or a []any of these and of ReplyError. A ReplyError as the whole reply is
// returned as the error.
func (t target) do(limit time.Duration, args ...any) (any, error) {
	deadline := time.Now().Add(limit)
	c, err := t.dial(limit)
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	if _, err := c.Write(encode(args)); err != nil {
		return nil, fmt.Errorf("redistest: send %v: %w", args[0], err)
	}
	f, err := readFrame(bufio.NewReader(c))
	if err != nil {
		return nil, fmt.Errorf("redistest: reply to %v: %w", args[0], err)
	}
	reply := f.plain()
	if e, ok := reply.(ReplyError); ok {
		return nil, e
	}
	return reply, nil
}

// encode is the request of args.
func encode(args []any) []byte {
	req := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		w := word(a)
		req = fmt.Appendf(req, "$%d\r\n%s\r\n", len(w), w)
	}
	return req
}

// word is an argument as it is sent: strings and bytes as they are, and what else there is as fmt prints it.
func word(arg any) []byte {
	switch arg := arg.(type) {
	case []byte:
		return arg
	case string:
		return []byte(arg)
	default:
		return fmt.Append(nil, arg)
	}
}

// plain returns a value in Go's own types.
func (v value) plain() any {
	switch {
	case v.null:
		return nil
	case v.kind == '-' || v.kind == '!':
		return ReplyError(v.text)
	case v.kind == ':':
		n, err := strconv.ParseInt(v.text, 10, 64)
		if err != nil {
			return v.text
		}
		return n
	case v.kind == '*' || v.kind == '~' || v.kind == '>' || v.kind == '%':
		list := make([]any, len(v.elems))
		for i, e := range v.elems {
			list[i] = e.plain()
		}
		return list
	default:
		return v.text
	}
}

// errProtocol is wrapped by what readFrame returns for bytes that are not RESP.
var errProtocol = errors.New("redistest: not RESP")

// maxBulk is the longest string that Redis accepts by default, maxElems as much as it accepts
// in a request. Both keep a broken stream from being taken for a huge length.
const (
	maxBulk  = 512 << 20
	maxElems = 1 << 20
)

// value is one RESP2 or RESP3 value.
type value struct {
	kind  byte // the first byte of its encoding
	null  bool
	text  string  // the text of a scalar
	elems []value // the elements of an aggregate; keys and values of a map alternate
}

// frame is a value with the bytes it came in. An attribute belongs to the frame of the
// value it precedes.
type frame struct {
	value
	raw []byte
}

// readFrame reads the next reply. io.EOF means that the stream ended between two frames.
func readFrame(r *bufio.Reader) (frame, error) {
	var raw []byte
	v, err := readValue(r, &raw)
	if len(raw) > 0 && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return frame{v, raw}, err
}

// readRequest reads the next request, an array of strings or an inline command.
func readRequest(r *bufio.Reader) (words []string, raw []byte, err error) {
	first, err := r.Peek(1)
	if err != nil {
		return nil, nil, err
	}
	if first[0] != '*' {
		raw, err = r.ReadBytes('\n')
		return strings.Fields(string(raw)), raw, err
	}
	f, err := readFrame(r)
	return f.words(), f.raw, err
}

// words returns the elements of an aggregate as text.
func (v value) words() []string {
	words := make([]string, len(v.elems))
	for i, e := range v.elems {
		words[i] = e.text
	}
	return words
}

func readValue(r *bufio.Reader, raw *[]byte) (value, error) {
	line, err := r.ReadBytes('\n')
	*raw = append(*raw, line...)
	if err != nil {
		return value{}, err
	}
	line, crlf := bytes.CutSuffix(line, []byte("\r\n"))
	if !crlf || len(line) == 0 {
		return value{}, fmt.Errorf("%w: line %q", errProtocol, line)
	}
	v := value{kind: line[0], text: string(line[1:])}
	switch v.kind {
	case '+', '-', ':', ',', '#', '(':
		return v, nil
	case '_':
		v.null = true
		return v, nil
	case '$', '=', '!':
		return readString(r, raw, v)
	case '*', '~', '>', '%':
		return readElems(r, raw, v)
	case '|':
		if _, err := readElems(r, raw, v); err != nil {
			return value{}, err
		}
		return readValue(r, raw)
	default:
		return value{}, fmt.Errorf("%w: type %q", errProtocol, v.kind)
	}
}

func readString(r *bufio.Reader, raw *[]byte, v value) (value, error) {
	n, err := length(v.text, maxBulk)
	if err != nil || n < 0 {
		return value{kind: v.kind, null: true}, err
	}
	from := len(*raw)
	*raw = append(*raw, make([]byte, n+2)...)
	if _, err := io.ReadFull(r, (*raw)[from:]); err != nil {
		return value{}, err
	}
	if !bytes.HasSuffix(*raw, []byte("\r\n")) {
		return value{}, fmt.Errorf("%w: string of %d bytes without end", errProtocol, n)
	}
	v.text = string((*raw)[from : from+n])
	return v, nil
}

func readElems(r *bufio.Reader, raw *[]byte, v value) (value, error) {
	n, err := length(v.text, maxElems)
	v.text = ""
	if err != nil || n < 0 {
		return value{kind: v.kind, null: true}, err
	}
	if v.kind == '%' || v.kind == '|' {
		n *= 2
	}
	for range n {
		e, err := readValue(r, raw)
		if err != nil {
			return value{}, err
		}
		v.elems = append(v.elems, e)
	}
	return v, nil
}

// length parses a length; -1 is RESP2's null.
func length(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < -1 || n > most {
		return 0, fmt.Errorf("%w: length %q", errProtocol, text)
	}
	return n, nil
}

// Refusal is an error reply, in the server's words.
type Refusal string

// Outcome returns what a script returned: an int, int64 or string, a Refusal, or a []any of these.
func Outcome(returned any) wire.Outcome {
	reply, err := wire.NewReply(Result(returned))
	return wire.Outcome{Reply: reply, Err: err}
}

// Result is Outcome as a client returns it.
func Result(returned any) rueidis.RedisResult {
	// The client makes messages out of two things, its connection and its cache. This is the cache.
	var message rueidis.RedisMessage
	if err := message.CacheUnmarshalView(encodeReply(make([]byte, 7), returned)); err != nil {
		panic(err)
	}
	return rueidis.NewResult(message, nil)
}

// encodeReply writes a message as the client's cache does, after the seven bytes of its life.
func encodeReply(to []byte, returned any) []byte {
	switch value := returned.(type) {
	case int:
		return encodeReply(to, int64(value))
	case int64:
		return binary.BigEndian.AppendUint64(append(to, ':'), uint64(value)) //nolint:gosec // read back as it was
	case string:
		return append(binary.BigEndian.AppendUint64(append(to, '$'), uint64(len(value))), value...)
	case Refusal:
		return append(binary.BigEndian.AppendUint64(append(to, '-'), uint64(len(value))), value...)
	case []any:
		to = binary.BigEndian.AppendUint64(append(to, '*'), uint64(len(value)))
		for _, element := range value {
			to = encodeReply(to, element)
		}
		return to
	}
	panic(fmt.Sprintf("a script does not return a %T", returned))
}
