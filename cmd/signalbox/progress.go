// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-go/signalbox/inspect"
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
	text := "signalbox: " + examinedOf(examined, keys)
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

func examinedOf(examined, keys int64) string {
	if keys == 0 {
		return fmt.Sprintf("%d keys examined", examined)
	}
	return fmt.Sprintf("%d of %d keys examined", examined, keys)
}

// lateness is how old a list is before it says so.
const lateness = 30 * time.Second

// note says in a line how late a list is, or nothing if it is not.
func note(now inspect.Snapshot) string {
	switch {
	case now.Err != nil && now.Keys == 0:
		return "" // the error says more
	case !now.Complete:
		return "not all names are found yet: " + examinedOf(now.Examined, now.Keys)
	case now.Age > lateness:
		return fmt.Sprintf("names that are new since %v may be missing: %s", now.Age.Round(time.Second), examinedOf(now.Examined, now.Keys))
	}
	return ""
}
