// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// mutant is one change of one line: Old, which stands in Col of Line, becomes New.
type mutant struct {
	File string // relative to the root of the repository
	Line int    // from 1
	Col  int    // from 1, in bytes of Text
	Kind string
	Old  string
	New  string
	Text string // the line without the space around it, by which it is found again
}

const fields = 7

var errGone = errors.New("its line is gone")

// key identifies a mutant in the results. It keeps the position that is in the list.
func (m mutant) key() string { return fmt.Sprintf("%s:%d:%d:%s", m.File, m.Line, m.Col, m.Kind) }

func (m mutant) isLua() bool { return strings.HasSuffix(m.File, ".lua") }

// group is the row of the summary that counts the mutant: its package, or its folder of scripts.
func (m mutant) group() string {
	if dir := path.Dir(m.File); dir != "." {
		return dir
	}
	return "(root)"
}

func (m mutant) String() string {
	return strings.Join([]string{m.File, strconv.Itoa(m.Line), strconv.Itoa(m.Col), m.Kind, m.Old, m.New, m.Text}, "\t")
}

func parseMutant(line string) (mutant, error) {
	f := strings.SplitN(line, "\t", fields)
	if len(f) != fields {
		return mutant{}, fmt.Errorf("%q has %d fields, want %d", line, len(f), fields)
	}
	number, err := strconv.Atoi(f[1])
	if err != nil {
		return mutant{}, fmt.Errorf("%q: %w", line, err)
	}
	column, err := strconv.Atoi(f[2])
	if err != nil {
		return mutant{}, fmt.Errorf("%q: %w", line, err)
	}
	return mutant{File: f[0], Line: number, Col: column, Kind: f[3], Old: f[4], New: f[5], Text: f[6]}, nil
}

// readList reads a list that writeList wrote. A line that begins with # is a comment.
func readList(name string) ([]mutant, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var list []mutant
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		m, err := parseMutant(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, m)
	}
	return list, nil
}

func writeList(name, header string, list []mutant) error {
	var text strings.Builder
	text.WriteString(header)
	for _, m := range list {
		text.WriteString(m.String() + "\n")
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// locate returns the offset of Old in source. If the line moved, the nearest line of the same text counts.
// Without such a line it returns errGone.
func (m mutant) locate(source string) (int, error) {
	best, distance, offset := -1, 0, 0
	number := 0
	for line := range strings.Lines(source) {
		number++
		far := max(number-m.Line, m.Line-number)
		if strings.TrimSpace(line) == m.Text && (best < 0 || far < distance) {
			best, distance = offset+strings.Index(line, m.Text)+m.Col-1, far
		}
		offset += len(line)
	}
	if best < 0 || !strings.HasPrefix(source[best:], m.Old) {
		return 0, errGone
	}
	return best, nil
}

// apply returns source with the mutant in it.
func (m mutant) apply(source string) (string, error) {
	at, err := m.locate(source)
	if err != nil {
		return "", err
	}
	return source[:at] + m.New + source[at+len(m.Old):], nil
}
