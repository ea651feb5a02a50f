// SPDX-License-Identifier: Apache-2.0

// Package tally counts what a run of tests did and saw: faults by kind, grants by kind of lock, histories, seeds, and times. The kit
// that makes a fault counts it. It counts only if FileEnv names a file, to which [Write] appends a line of JSON for each count.
package tally

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// FileEnv names the environment variable that names the file.
const FileEnv = "SIGNALBOX_TALLY"

// The groups that several kits count in.
const (
	Faults = "faults" // by kind of fault
	Sound  = "sound"  // what is to be zero, or is a floor: see test/proof
)

// Row is a line of the file: a count, or times. Rows of a group and a name are added up.
type Row struct {
	Group string    `json:"group"`
	Name  string    `json:"name"`
	N     int64     `json:"n"`
	Times []float64 `json:"ms,omitempty"` // in milliseconds, N of them
}

type key struct{ group, name string }

// counts are those of the whole process: a kit does not know for which test it makes a fault.
//
//nolint:gochecknoglobals // see above
var counts struct {
	sync.Mutex
	rows map[key]*Row
}

//nolint:gochecknoglobals // the environment of a process, read once
var isOn = sync.OnceValue(func() bool { return os.Getenv(FileEnv) != "" })

// Add counts n more.
func Add(group, name string, n int) {
	change(group, name, func(r *Row) { r.N += int64(n) })
}

// Fault counts a fault of a kind.
func Fault(kind string) { Add(Faults, kind, 1) }

// Time counts one more, which took so long.
func Time(group, name string, took time.Duration) {
	change(group, name, func(r *Row) {
		r.N++
		r.Times = append(r.Times, took.Seconds()*1000)
	})
}

func change(group, name string, do func(r *Row)) {
	if !isOn() {
		return
	}
	counts.Lock()
	defer counts.Unlock()
	if counts.rows == nil {
		counts.rows = make(map[key]*Row)
	}
	r := counts.rows[key{group, name}]
	if r == nil {
		r = &Row{Group: group, Name: name}
		counts.rows[key{group, name}] = r
	}
	do(r)
}

// Write appends what was counted since the last call to the file that FileEnv names, if it does.
func Write() error {
	if !isOn() {
		return nil
	}
	counts.Lock()
	defer counts.Unlock()
	file, err := os.OpenFile(os.Getenv(FileEnv), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("tally: %w", err)
	}
	lines := json.NewEncoder(file)
	for _, r := range counts.rows {
		err = errors.Join(err, lines.Encode(r))
	}
	counts.rows = nil
	return errors.Join(err, file.Close())
}

// Read adds up the rows of a file, sorted by group and name, with their times sorted. A file that is missing has none.
func Read(name string) ([]Row, error) {
	file, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("tally: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	sums := make(map[key]*Row)
	for lines := json.NewDecoder(file); ; {
		var r Row
		if err := lines.Decode(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("tally: %s: %w", name, err)
		}
		k := key{r.Group, r.Name}
		if sums[k] == nil {
			sums[k] = &Row{Group: r.Group, Name: r.Name}
		}
		sums[k].N += r.N
		sums[k].Times = append(sums[k].Times, r.Times...)
	}
	var rows []Row
	for _, r := range sums {
		slices.Sort(r.Times)
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Name, b.Name)) })
	return rows, nil
}

// Median returns the middle of the times in milliseconds, and Longest the greatest; 0 without times. The rows are those of Read.
func (r Row) Median() float64 {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[len(r.Times)/2]
}

// Longest returns the greatest of the times in milliseconds, 0 without times.
func (r Row) Longest() float64 {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[len(r.Times)-1]
}
