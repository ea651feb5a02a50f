// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/setnx"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

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
