// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
)

// fakeT is a testing.TB of its own: that of an example, or of a test that is to fail.
type fakeT struct {
	testing.TB

	cleanups []func()
	fatal    string
}

// exampleT returns what stands for the test's t in an example, and what ends it.
func exampleT() (t testing.TB, end func()) {
	f := new(fakeT)
	return f, f.end
}

// fatal runs test, which is to fail, and returns the message.
func fatal(test func(f *fakeT)) string {
	f, ended := new(fakeT), make(chan struct{})
	go func() {
		defer close(ended)
		defer f.end()
		test(f)
	}()
	<-ended
	return f.fatal
}

func (f *fakeT) end() {
	for _, cleanup := range slices.Backward(f.cleanups) {
		cleanup()
	}
}

func (f *fakeT) Helper()              {}
func (f *fakeT) Output() io.Writer    { return io.Discard }
func (f *fakeT) Cleanup(do func())    { f.cleanups = append(f.cleanups, do) }
func (f *fakeT) Fatal(message ...any) { f.Fatalf("%s", fmt.Sprint(message...)) }

// Fatalf implements testing.TB. It ends the goroutine, as that of a test does.
func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
