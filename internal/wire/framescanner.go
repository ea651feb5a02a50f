// SPDX-License-Identifier: Apache-2.0

package wire

import "bytes"

// maxText bounds what is kept of one value: the reply to HELLO has some 200 bytes, an error fewer.
const maxText = 1 << 10

// maxString is the length of the longest string that a server has unless it is configured otherwise. maxValues bounds the values
// inside of one, and maxDepth the arrays around a value. The client allocates memory for as much as a stream announces, and calls
// itself for each array inside of another.
const maxString, maxValues, maxDepth = 1 << 29, 1 << 24, 128

// frameScanner finds the ends of the values in a RESP stream, which comes in pieces. It allocates nothing for a value
// that it does not keep. If it cannot read the stream, or the stream announces more than a server has, it sets unreadable, and
// finds nothing more.
type frameScanner struct {
	kind       byte   // the first byte of the value
	size       int64  // the number of values in it, if it is an array
	text       []byte // the words of an error, the first word of a request, or the whole value; at most maxText
	keepWord   bool   // reports whether the first word of each value is kept
	keepWords  bool   // reports whether the further words are kept, too, each with a line end
	keepWhole  bool   // reports whether the next value is kept whole
	unreadable bool

	valuesLeft int64           // the values still to come inside the current value, without a bulk string that has begun
	depth      int             // how many arrays are open, and some that have ended since the last header
	ends       [maxDepth]int32 // what valuesLeft is at the ends of these arrays
	bytesLeft  int64           // the bytes still to come of a bulk string, with its line end
	keeping    bool            // reports whether the bytes of the bulk string are kept
	line       []byte          // the beginning of a line whose end has not come
}

// refusal returns the words of the value that has ended if it is an error, or "".
func (f *frameScanner) refusal() string {
	if f.kind != '-' && f.kind != '!' {
		return ""
	}
	words := bytes.TrimSpace(f.text)
	if line, rest, found := bytes.Cut(words, []byte("\r\n")); found && f.kind == '!' {
		words = rest // the value was kept whole, with the line of its length
	} else if found {
		words = line
	}
	return string(bytes.TrimPrefix(words, []byte("-")))
}

// insideValue reports whether a value has begun and not ended.
func (f *frameScanner) insideValue() bool {
	return f.valuesLeft > 0 || f.bytesLeft > 0 || len(f.line) > 0
}

// isRefusal reports whether b begins with an error, or inside of one.
func (f *frameScanner) isRefusal(b []byte) bool {
	kind := b[0]
	switch {
	case f.valuesLeft > 0 || f.bytesLeft > 0:
		kind = f.kind
	case len(f.line) > 0:
		kind = f.line[0]
	}
	return kind == '-' || kind == '!'
}

// next reads b up to the end of a value, and returns the rest of b.
func (f *frameScanner) next(b []byte) (rest []byte, ended bool) {
	for len(b) > 0 && !f.unreadable {
		if f.bytesLeft > 0 {
			n := min(f.bytesLeft, int64(len(b)))
			if f.keeping {
				f.keep(b[:n])
			}
			f.bytesLeft -= n
			b = b[n:]
			if f.bytesLeft > 0 {
				return nil, false
			}
			f.keeping = false
		} else if b = f.skipStrings(b); len(b) > 0 {
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
		if f.valuesLeft == 0 && f.bytesLeft == 0 && !f.unreadable {
			return b, true
		}
	}
	return nil, false
}

// keepsNext reports whether the next word is kept.
func (f *frameScanner) keepsNext() bool { return f.keepWord && (f.keepWords || len(f.text) == 0) }

// skipStrings skips bulk strings that are inside the current value, are in b as a whole, and are not kept, except for the last
// one. So it does for the hundreds of arguments of a script over many keys, one byte of each length at a time, what header
// does for everything.
func (f *frameScanner) skipStrings(b []byte) []byte {
	if len(f.line) > 0 || f.keepWhole || f.keepsNext() {
		return b
	}
	for f.valuesLeft > 1 && len(b) > 3 && b[0] == '$' {
		n, i := 0, 1
		for i < len(b) && i < 6 && b[i] >= '0' && b[i] <= '9' {
			n, i = n*10+int(b[i]-'0'), i+1
		}
		if i == 1 || i == 6 || len(b) < i+2+n+2 || b[i] != '\r' || b[i+1] != '\n' {
			return b
		}
		b = b[i+2+n+2:]
		f.valuesLeft--
	}
	return b
}

// header reads the line with which a value begins.
func (f *frameScanner) header(line []byte) {
	first := f.valuesLeft == 0
	if first {
		f.kind, f.text, f.valuesLeft = line[0], f.text[:0], 1
	}
	if f.keepWhole {
		f.keep(line)
	}
	for f.depth > 0 && int64(f.ends[f.depth-1]) >= f.valuesLeft {
		f.depth--
	}
	switch line[0] {
	case '+', ':', '_', ',', '#', '(', '-':
		f.valuesLeft--
		if first && line[0] == '-' || f.keepsNext() {
			f.keep(line[1:])
		}
	case '$', '=', '!':
		f.valuesLeft--
		if n := f.number(line); n > maxString {
			f.unreadable = true
		} else if n >= 0 {
			f.bytesLeft = n + 2
			f.keeping = f.keepWhole || first && line[0] == '!' || f.keepsNext()
		}
	case '*', '~', '>':
		f.unreadable = f.unreadable || line[0] == '>' && !first // no message is inside of another value
		f.open(f.number(line), first)
	case '%':
		n := f.number(line)
		f.unreadable = f.unreadable || n < 0 // there is no null of this kind
		f.open(2*n, first)
	default: // attributes and streams among them, which no server sends unasked
		f.unreadable = true
	}
}

// open begins an array of n values, or of none if n is negative.
func (f *frameScanner) open(n int64, first bool) { //nolint:revive // a fact about the array
	f.valuesLeft--
	if first {
		f.size, f.depth = n, 0
	}
	if f.unreadable = f.unreadable || f.depth == maxDepth || f.valuesLeft+n > maxValues; !f.unreadable {
		f.ends[f.depth] = int32(f.valuesLeft) //nolint:gosec // at most maxValues
		f.depth++
		f.valuesLeft += max(n, 0)
	}
}

func (f *frameScanner) number(line []byte) (n int64) {
	for i := 1; i < len(line); i++ {
		switch digit := line[i]; {
		case digit >= '0' && digit <= '9' && n < 1<<40:
			n = n*10 + int64(digit-'0')
		case digit == '\r' && i > 1:
			return n
		case digit == '-' && string(line) == string(line[0])+"-1\r\n":
			return -1
		default:
			f.unreadable = true
			return -1
		}
	}
	f.unreadable = true
	return -1
}

// keep appends bytes to the text of the value.
func (f *frameScanner) keep(b []byte) {
	f.text = append(f.text, b[:min(len(b), maxText-len(f.text))]...)
}
