// SPDX-License-Identifier: Apache-2.0

package redistest

import "os"

// pipes opens pipes and closes each end that was not kept.
type pipes struct {
	rest []*os.File
	err  error // the first one
}

// pipe is both ends of one, closed on exec unless it is inherited.
type pipe struct{ r, w *os.File }

func (p *pipes) open() pipe {
	r, w, err := os.Pipe()
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		return pipe{}
	}
	p.rest = append(p.rest, r, w)
	return pipe{r, w}
}

// keep hands f over to the caller.
func (p *pipes) keep(f *os.File) *os.File {
	for i, other := range p.rest {
		if other == f {
			p.rest = append(p.rest[:i], p.rest[i+1:]...)
			break
		}
	}
	return f
}

// closeNow closes ends before closeRest would.
func (p *pipes) closeNow(files ...*os.File) {
	for _, f := range files {
		_ = p.keep(f).Close() // a pipe end has nothing to flush
	}
}

func (p *pipes) closeRest() {
	p.closeNow(append([]*os.File(nil), p.rest...)...)
}
