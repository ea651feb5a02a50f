// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-go/signalbox/internal/words"
)

// progress says on a terminal how far a long list is, on a line that it writes over.
type progress struct {
	to    io.Writer // nil if there is no terminal
	begun time.Time
	last  time.Time
	wrote bool
}

// progressAfter is how long a list is silent, and progressEvery how often it writes then.
const progressAfter, progressEvery = time.Second, 500 * time.Millisecond

func newProgress(to io.Writer) *progress {
	p := &progress{begun: time.Now()}
	if file, is := to.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		p.to = to
	}
	return p
}

// report is called after each page of keys.
func (p *progress) report(examined, keys int64) {
	now := time.Now()
	if p.to == nil || now.Sub(p.begun) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.wrote = now, true
	text := "signalbox: " + words.Examined(examined, keys)
	if left := time.Duration(float64(now.Sub(p.begun)) * float64(keys-examined) / float64(max(examined, 1))); keys > 0 && left >= time.Second {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	_, _ = fmt.Fprintf(p.to, "\r%s\x1b[K", text) // it is no part of the result
}

// end removes the line.
func (p *progress) end() {
	if p.wrote {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// say prints a line for the person at the terminal.
func (p *progress) say(text string) {
	if p.to != nil {
		_, _ = fmt.Fprintln(p.to, "signalbox: "+text)
	}
}
