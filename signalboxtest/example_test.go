// SPDX-License-Identifier: Apache-2.0

package signalboxtest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
	"github.com/signalbox-go/signalbox/semaphore"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// Lock is what Shop needs of a lock: reentrant.Lock has it, and so has signalboxtest.Fake.
type Lock interface {
	TryLock(ctx context.Context) (signalbox.Lease, error)
}

// Shop ships orders. One process at a time ships an order.
type Shop struct {
	Lock func(order string) Lock
	Pack func(ctx context.Context, order string) error               // takes minutes
	Book func(ctx context.Context, order string, token uint64) error // refuses a token smaller than one it has seen
}

// ErrShipping is the error of Ship while another process ships the order.
var ErrShipping = errors.New("another process ships the order")

// NewShop returns a shop whose locks are those of a session.
func NewShop(session *signalbox.Session) *Shop {
	return &Shop{
		Lock: func(order string) Lock { return reentrant.New(session, "order/"+order) },
		Pack: func(context.Context, string) error { return nil },
		Book: func(context.Context, string, uint64) error { return nil },
	}
}

// Ship packs an order and books the shipment.
func (s *Shop) Ship(ctx context.Context, order string) error {
	lease, err := s.Lock(order).TryLock(ctx)
	if errors.Is(err, signalbox.ErrHeld) {
		return ErrShipping
	}
	if err != nil {
		return err
	}
	defer lease.Unlock()

	ctx = lease.Bind(ctx) // ends with the lease
	if err := s.Pack(ctx, order); err != nil {
		return err
	}
	return s.Book(ctx, order, lease.Token())
}

func Example() {
	t, end := exampleT() // in a test it is the test's own
	defer end()
	kit := signalboxtest.New(t)
	shop := NewShop(kit.Session())
	ctx := context.Background()

	fmt.Println("the lock is free:", shop.Ship(ctx, "42"))

	other := kit.Hold("order/42")
	fmt.Println("another process holds it:", shop.Ship(ctx, "42"))
	other.Release()

	shop.Pack = func(ctx context.Context, _ string) error {
		kit.Lose("order/42") // in the middle of the work
		<-ctx.Done()
		return context.Cause(ctx)
	}
	fmt.Println("it is lost:", shop.Ship(ctx, "42"))
	// Output:
	// the lock is free: <nil>
	// another process holds it: another process ships the order
	// it is lost: signalbox: lock "order/42": the lease was lost: the server no longer has it; it was ended by force, deleted or evicted
}

// A fake goes where the code takes an interface, and returns the error that a test wants.
func ExampleFake_Fail() {
	t, end := exampleT()
	defer end()
	fake := signalboxtest.NewFake(t, "order/42")
	shop := &Shop{
		Lock: func(string) Lock { return fake },
		Pack: func(context.Context, string) error { return nil },
		Book: func(context.Context, string, uint64) error { return nil },
	}
	ctx := context.Background()
	fmt.Println(shop.Ship(ctx, "42"))
	fake.Fail(signalbox.ErrNoReply)
	fmt.Println("no reply:", errors.Is(shop.Ship(ctx, "42"), signalbox.ErrNoReply))
	// Output:
	// <nil>
	// no reply: true
}

// Holds of other kinds than an exclusive lock, of another process.
func ExampleHoldOption() {
	t, end := exampleT()
	defer end()
	kit := signalboxtest.New(t)
	ctx := context.Background()
	reader := kit.Hold("prices", signalboxtest.Reading())
	_, err := rwlock.New(kit.Session(), "prices").TryLock(ctx)
	fmt.Println("beside a reader:", errors.Is(err, signalbox.ErrHeld))
	reader.Release()

	kit.Hold("seats", signalboxtest.Permits(2, 3))
	_, err = semaphore.New(kit.Session(), "seats", 3).TryAcquire(ctx, 2)
	fmt.Println("two of three are held:", errors.Is(err, signalbox.ErrHeld))
	// Output:
	// beside a reader: true
	// two of three are held: true
}

// A process that stands still, as one that the host suspends, believes in its lease while another one has the lock.
func ExampleKit_Pause() {
	t, end := exampleT()
	defer end()
	kit := signalboxtest.New(t)
	session := kit.Session()
	lease, err := reentrant.New(session, "order/42").Lock(context.Background())
	fmt.Println(err, kit.HeldBy("order/42", session))
	kit.Pause(session)
	kit.Expire("order/42")
	other := kit.Hold("order/42")
	fmt.Println(lease.Err(), other.Token() > lease.Token())
	kit.Resume(session)
	// Output:
	// <nil> true
	// <nil> true
}
