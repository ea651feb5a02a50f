// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A session on a client of your own: Tune it, and close the session before the client. NewSession
// sends nothing.
func ExampleNewSession() {
	o, err := rueidis.ParseURL(serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	session := signalbox.NewSession(client,
		signalbox.WithPrefix("shop:"),
		signalbox.WithDefaults(signalbox.WithRenewedLease(10*time.Second)))
	defer session.Close(context.Background())

	fmt.Println(reentrant.New(session, "order/42").Check())
	// Output: <nil>
}

// A session with the options of a rueidis client, for what no URL can say. Close closes the client that it makes of them.
func ExampleDialWith() {
	o, err := signalbox.ParseURL(serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		return rueidis.AuthCredentials{}, nil // the user and password of this moment
	}
	session, err := signalbox.DialWith(context.Background(), o)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	fmt.Println(reentrant.New(session, "order/42").Check())
	// Output: <nil>
}

// A primary behind sentinels, with TLS and a user for both. Sentinel.TLSConfig is for the sentinels, and TLSConfig for the servers
// alone. The names in their certificates are checked, so leave ServerName empty: each host has its own.
//
//nolint:testableexamples // not every machine has sentinels
func ExampleDialWith_sentinels() {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	session, err := signalbox.DialWith(context.Background(), rueidis.ClientOption{
		InitAddress: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Sentinel: rueidis.SentinelOption{
			MasterSet: "mymaster", TLSConfig: secure, Username: "watch", Password: os.Getenv("SENTINEL_PASSWORD"),
		},
		TLSConfig: secure, Username: "locks", Password: os.Getenv("REDIS_PASSWORD"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
}

// Close waits for holders as long as its context lets it, and then ends their leases.
func ExampleSession_Close() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	lease, err := reentrant.New(session, "order/42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}

	grace, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	fmt.Println("holders were left:", session.Close(grace) != nil)
	fmt.Println("their leases ended:", errors.Is(lease.Err(), signalbox.ErrClosed))
	// Output:
	// holders were left: true
	// their leases ended: true
}

// Enter makes a context that carries the lease. Lock with it enters again, at once and with the
// same token; with any other context it waits.
func ExampleLease_Enter() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "order/42")

	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	inside := lease.Enter(ctx)

	again, err := mu.Lock(inside)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("same token:", again.Token() == lease.Token())

	_, err = mu.TryLock(ctx)
	fmt.Println("another caller:", errors.Is(err, signalbox.ErrHeld))

	// The lock is held until the last lease is unlocked, in any order.
	fmt.Println(lease.Unlock(), again.Err(), again.Unlock())
	// Output:
	// same token: true
	// another caller: true
	// <nil> <nil> <nil>
}

// Bind ties work to the lease: its context ends when the lease does, and says why.
func ExampleLease_Bind() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	// A fixed lease is not renewed: it is lost when its time is over.
	lease, err := reentrant.New(session, "export", signalbox.WithFixedLease(100*time.Millisecond)).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	work := lease.Bind(ctx)
	<-work.Done() // work that takes too long
	fmt.Println(context.Cause(work))
	fmt.Println("too late:", errors.Is(lease.Unlock(), signalbox.ErrLost))
	// Output:
	// signalbox: lock "export": the lease was lost: the time of its fixed lease is over
	// too late: true
}

// WithMaxHold ends a lease that its holder forgot, or hangs with.
func ExampleWithMaxHold() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	mu := reentrant.New(session, "import", signalbox.WithRenewedLease(time.Second), signalbox.WithMaxHold(100*time.Millisecond))
	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	<-lease.Done()
	fmt.Println(lease.Err())
	// Output: signalbox: lock "import": the lease was held for as long as WithMaxHold allows
}

// store is what the lock protects. It takes a write only with a token that is not smaller than
// the greatest it has seen.
type store struct {
	greatest uint64
	value    string
}

func (s *store) write(token uint64, value string) error {
	if token < s.greatest {
		return errors.New("fenced off: a later holder has written")
	}
	s.greatest, s.value = token, value
	return nil
}

// A holder may be stopped for longer than its lease and not know it yet. A store can refuse its late write
// by the token.
func ExampleLease_Token() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "file", signalbox.WithFixedLease(100*time.Millisecond))
	var file store

	late, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	<-late.Done() // a long pause

	next, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock()

	fmt.Println(file.write(next.Token(), "new"))
	fmt.Println(file.write(late.Token(), "old"))
	fmt.Println(file.value)
	// Output:
	// <nil>
	// fenced off: a later holder has written
	// new
}

// An observer of your own counts what matters. Observers joins it with another one, such as that of module otel.
func ExampleObserver() {
	ctx := context.Background()
	var lines []string
	mine := signalbox.Observer{
		Refused: func(_ context.Context, e signalbox.Event) {
			lines = append(lines, fmt.Sprint(e.Class, " refused: ", e.Outcome, ", waited less than a minute: ", e.Waited < time.Minute))
		},
		Released: func(_ context.Context, e signalbox.Event) {
			lines = append(lines, fmt.Sprint(e.Class, " released, held less than a minute: ", e.Held < time.Minute))
		},
	}
	session, err := signalbox.Dial(ctx, serverURL, signalbox.WithObserver(signalbox.Observers(mine, signalbox.Observer{})))
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "order/42", signalbox.WithClass("order"))
	lease, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = mu.TryLock(ctx)
	_ = lease.Unlock()
	for _, line := range lines { // hooks may run at the same time: a real one counts
		fmt.Println(line)
	}
	// Output:
	// order refused: held, waited less than a minute: true
	// order released, held less than a minute: true
}

// A service that starts while its server is away. Ping is for its readiness probe.
func ExampleWithLazyConnect() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, "redis://127.0.0.1:1", signalbox.WithLazyConnect()) // no server there
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	probe, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	fmt.Println("ready:", session.Ping(probe) == nil)
	// Output: ready: false
}

// Long work that can stop at many places lets others in.
func ExampleWithWanted() {
	ctx := context.Background()
	scanner, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer scanner.Close(context.Background())
	lease, err := reentrant.New(scanner, "table", signalbox.WithWanted()).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-lease.Wanted() // between two parts of the scan
		_ = lease.Unlock()
	}()

	writer, err := signalbox.Dial(ctx, serverURL) // in another process
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Close(context.Background())
	err = reentrant.New(writer, "table").Do(ctx, func(context.Context, signalbox.Lease) error {
		fmt.Println("the scan let the writer in")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: the scan let the writer in
}

// A lock that one process uses again and again stays with it until another one wants it.
func ExampleWithKeepWarm() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	mu := reentrant.New(session, "counter", signalbox.WithKeepWarm(10*time.Second))
	for range 3 {
		if err := mu.Do(ctx, func(context.Context, signalbox.Lease) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("kept:", session.IdleLocks() <= 1)
	// Output: kept: true
}

// An error names the call and the lock. errors.Is says what it means.
func ExampleOpError() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())
	_, err = reentrant.New(session, "").Lock(ctx)
	var failed *signalbox.OpError
	if errors.As(err, &failed) {
		fmt.Printf("%s %q: a bad name: %t\n", failed.Op, failed.Name, errors.Is(err, signalbox.ErrBadName))
	}
	// Output: lock "": a bad name: true
}
