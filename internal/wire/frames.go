// SPDX-License-Identifier: Apache-2.0

package wire

import "bytes"

// maxText bounds what is kept of one value: the reply to HELLO has some 200 bytes, an error fewer.
const maxText = 1 << 10

// frames finds where the values of a RESP stream end, in pieces as they come. It allocates nothing for a value
// that it does not keep. If it cannot read the stream it says so by lost, and finds nothing more.
type frames struct {
	kind  byte   // the first byte of the value
	text  []byte // the words of an error, the first word of a request, or the whole value; at most maxText
	words bool   // the first word of each value is kept
	whole bool   // the next value is kept whole
	lost  bool

	left   int64 // values still to come in this one, without the bulk string that skip is about
	skip   int64 // bytes still to come of a bulk string, its line end included
	taking bool  // these bytes are kept
	line   []byte
}

// within reports whether a value has begun and not ended.
func (f *frames) within() bool { return f.left > 0 || f.skip > 0 || len(f.line) > 0 }

// next reads b up to the end of a value, and returns the rest of b.
func (f *frames) next(b []byte) (rest []byte, ended bool) {
	for len(b) > 0 && !f.lost {
		if f.skip > 0 {
			n := min(f.skip, int64(len(b)))
			if f.taking {
				f.take(b[:n])
			}
			f.skip -= n
			b = b[n:]
			if f.skip > 0 {
				return nil, false
			}
			f.taking = false
		} else {
			end := bytes.IndexByte(b, '\n') + 1
			if end == 0 {
				f.line = append(f.line, b[:min(len(b), maxText-len(f.line))]...)
				return nil, false
			}
			line := b[:end]
			if len(f.line) > 0 {
				f.line = append(f.line, line[:min(end, maxText-len(f.line))]...)
				line = f.line
			}
			f.header(line)
			f.line, b = f.line[:0], b[end:]
		}
		if f.left == 0 && f.skip == 0 && !f.lost {
			return b, true
		}
	}
	return nil, false
}

// header reads the line with which a value begins.
func (f *frames) header(line []byte) {
	first := f.left == 0
	if first {
		f.kind, f.text, f.left = line[0], f.text[:0], 1
	}
	if f.whole {
		f.take(line)
	}
	switch line[0] {
	case '+', ':', '_', ',', '#', '(':
		f.left--
	case '-':
		f.left--
		if first {
			f.take(bytes.TrimRight(line[1:], "\r\n"))
		}
	case '$', '=', '!':
		f.left--
		if n := f.number(line); n >= 0 {
			f.skip = n + 2
			f.taking = f.whole || first && line[0] == '!' || f.words && len(f.text) == 0
		}
	case '*', '~', '>':
		f.left += max(f.number(line), 0) - 1
	case '%':
		f.left += 2*max(f.number(line), 0) - 1
	default: // attributes and streams among them, which no server sends unasked
		f.lost = true
	}
}

// number returns the number in a line: -1 or more.
func (f *frames) number(line []byte) (n int64) {
	for i := 1; i < len(line); i++ {
		switch digit := line[i]; {
		case digit >= '0' && digit <= '9' && n < 1<<40:
			n = n*10 + int64(digit-'0')
		case digit == '\r' && i > 1:
			return n
		case digit == '-' && string(line) == string(line[0])+"-1\r\n":
			return -1
		default:
			f.lost = true
			return -1
		}
	}
	f.lost = true
	return -1
}

func (f *frames) take(b []byte) { f.text = append(f.text, b[:min(len(b), maxText-len(f.text))]...) }
