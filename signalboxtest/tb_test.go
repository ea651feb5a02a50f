// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/signalboxtest"
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lock for a unit test, without a server.
func ExampleFake() {
	t, end := exampleT() // in a test it is the test's own
	defer end()
	lock := signalboxtest.NewFake(t, "order/42")
	err := lock.Do(context.Background(), func(ctx context.Context, _ signalbox.Lease) error {
		lock.Lose() // in the middle of the work
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, signalbox.ErrLost), lock.IsHeld())
	// Output: true true
}

// Another process holds the lock.
func ExampleKit_Hold() {
	t, end := exampleT() // in a test it is the test's own
	defer end()
	kit := signalboxtest.New(t)
	lock := reentrant.New(kit.Session(), "order/42")

	other := kit.Hold("order/42")
	_, err := lock.TryLock(context.Background())
	fmt.Println(err)
	other.Release()
	lease, err := lock.TryLock(context.Background())
	fmt.Println(lease.Token() > other.Token(), err)
	// Output:
	// signalbox: try lock "order/42": the lock is held
	// true <nil>
}

// Another client holds a lock by SET NX.
func ExampleKit_In() {
	t, end := exampleT() // in a test it is the test's own
	defer end()
	kit := signalboxtest.New(t)
	lock := reentrant.New(kit.Session(), "order/42", signalbox.WithLayout(setnx.Layout()))

	other := kit.In(setnx.Layout()).Hold("order/42")
	_, err := lock.TryLock(context.Background())
	fmt.Println(err)
	other.Release()
	// Output: signalbox: try lock "order/42": the lock is held
}

// A hold ends at the server, and its holder does not know it yet: the store has to refuse its token.
func ExampleKit_Expire() {
	t, end := exampleT() // in a test it is the test's own
	defer end()
	kit := signalboxtest.New(t)
	lease, _ := reentrant.New(kit.Session(), "order/42").TryLock(context.Background())

	kit.Expire("order/42")
	other := kit.Hold("order/42")
	fmt.Println(lease.Err(), other.Token() > lease.Token())
	// Output: <nil> true
}
