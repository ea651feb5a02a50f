// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/timers"
)

// LateClient stands in for the client of a session whose server may be away when the session is made. It is replaced once, by the
// first client that connects and whose server passes the checks. Until then no call is sent: Runner.Connect and Runner.Await say why.
//
//	Start --> attempt under way --------------------------> connected
//	            ^            | it fails
//	            |            v
//	            +--------- pause: the last attempt is the reply to calls that do not wait
//	     a call comes after the pause, or waits for its end
//
// One attempt runs at a time, for all calls. Start begins the first. Later ones are made only if a call asks. The mutex decides
// between the end of an attempt and Refuse: a client that comes later is closed.
type LateClient struct {
	rueidis.Client // sends nothing

	limit   time.Duration                                     // how long a call that does not wait for the server joins an attempt
	connect func(ctx context.Context) (rueidis.Client, error) // makes an attempt
	runner  *Runner                                           // the Runner of the session
	ctx     context.Context                                   //nolint:containedctx // the context of the attempts; ends with Refuse
	cancel  context.CancelFunc
	running sync.WaitGroup                 // the attempt
	made    atomic.Pointer[rueidis.Client] // the client; nil before it has connected

	mu struct {
		sync.Mutex
		attempt  *connectAttempt // the attempt under way, or the last one
		failures int             // how many attempts have failed
		next     time.Duration   // the monotonic time from which the next attempt may begin
	}
}

type connectAttempt struct {
	done chan struct{}
	err  error // the reason why it failed, or nil; written before done is closed
}

// longestLatePause bounds the pause between two attempts. After a reply that says that waiting does not help, it is the pause.
const longestLatePause = time.Second

var errNotConnected = errors.New("there has been no connection to the server yet")

// NewLateClient returns a LateClient whose connections c makes. limit bounds how long a call that does not wait joins an attempt.
func NewLateClient(c *Connector, limit time.Duration) *LateClient {
	none, _ := rueidis.NewClient(rueidis.ClientOption{ // with ForceSingleClient there is a client beside the error
		InitAddress: []string{"none"}, ForceSingleClient: true, DisableRetry: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return nil, &connectError{errNotConnected}
		},
	})
	l := &LateClient{Client: none, limit: limit}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	c.bound(l.ctx)
	return l
}

// lateClientOf returns the LateClient that a Connector's client is, or nil.
func lateClientOf(client rueidis.Client) *LateClient {
	own, _ := client.(connectedClient)
	late, _ := own.Client.(*LateClient)
	return late
}

// Start begins the first attempt. connect makes a client, and checks its server. It ends soon after its context has ended.
func (l *LateClient) Start(connect func(ctx context.Context) (rueidis.Client, error)) {
	l.connect = connect
	_, _, _ = l.join()
}

// isConnected reports whether there is a client.
func (l *LateClient) isConnected() bool { return l.made.Load() != nil }

// join returns the attempt under way, and begins one if the pause after the last is over. Otherwise the attempt is the last one, and
// pause is what is left. After refuse it returns an error.
func (l *LateClient) join() (a *connectAttempt, pause time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, 0, errs.ErrClosed
	}
	if a = l.mu.attempt; a != nil {
		select {
		case <-a.done:
		default:
			return a, 0, nil
		}
		if pause = l.mu.next - timers.Mono(); pause > 0 || a.err == nil {
			return a, pause, nil
		}
	}
	a = &connectAttempt{done: make(chan struct{})}
	l.mu.attempt = a
	l.running.Go(func() { l.run(a) })
	return a, 0, nil
}

func (l *LateClient) run(a *connectAttempt) {
	began := timers.Mono()
	client, err := l.connect(l.ctx)
	if err = l.settle(a, client, err); errors.Is(err, errs.ErrClosed) && client != nil {
		client.Close()
	}
	close(a.done)
	if w := l.runner.watcher; w != nil && err == nil {
		w.Replied(HelloScript.SHA1, "")
	} else if w != nil {
		w.Failed(HelloScript.SHA1, "", began, err, false)
	}
}

// settle records the outcome of an attempt, and returns its error.
func (l *LateClient) settle(a *connectAttempt, client rueidis.Client, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ctx.Err() != nil:
		a.err = errs.ErrClosed
		return a.err
	case err == nil:
		l.runner.learnMode(client)
		l.made.Store(&client)
		return nil
	}
	a.err = notConnected(l.ctx, err)
	pause := min(firstPause<<min(l.mu.failures, 10), longestLatePause)
	pause -= rand.N(pause * 2 / 5)
	if Judge(a.err) == Final {
		pause = longestLatePause + rand.N(longestLatePause/4)
	}
	l.mu.failures++
	l.mu.next = timers.Mono() + pause
	return a.err
}

// notConnected returns the error of calls that were not sent because of err. Only what a reply says can be final: anything else may
// be a server, or something before it, that is not ready yet.
func notConnected(ctx context.Context, err error) error {
	if errors.Is(err, errs.ErrClosed) {
		err = errConnClosed // the attempt's own client, and not the session
	}
	verdict := Temporary
	if Judge(err) == Final {
		verdict = Final
	}
	return &judgedError{errs.OfCall(ctx, err), verdict}
}

// call joins an attempt for a call that does not wait for the server. In the pause after an attempt it returns the error of that.
func (l *LateClient) call(ctx context.Context) error {
	a, _, err := l.join()
	if err != nil {
		return err
	}
	limit := time.NewTimer(l.limit)
	defer limit.Stop()
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return errs.OfContext(ctx)
	case <-l.ctx.Done():
		return errs.ErrClosed
	case <-limit.C:
		return &judgedError{errs.NoReply(l.limit), Temporary}
	}
}

// await waits until there is a client, ctx ends, or an attempt fails for good. It calls failed with the error of every other attempt. An
// attempt that was over before counts as such another one, whatever its error is: the next one may differ.
func (l *LateClient) await(ctx context.Context, failed func(error)) error {
	var known *connectAttempt // the last attempt whose error the caller has
	a, pause, err := l.join()
	if pause > 0 {
		known = a
		failed(a.err)
	}
	for ; err == nil; a, pause, err = l.join() {
		if a == known {
			if !Sleep(ctx, pause, l.ctx.Done()) {
				return errs.Ended(ctx)
			}
			continue
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return errs.Ended(ctx)
		case <-l.ctx.Done():
			return errs.ErrClosed
		}
		if a.err == nil || Judge(a.err) == Final {
			return a.err
		}
		failed(a.err)
		known = a
	}
	return err
}

// refuse ends the attempts if there is no client yet: calls that wait for one get errs.ErrClosed.
func (l *LateClient) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isConnected() {
		l.cancel()
	}
}

// Close closes the client, or ends the attempt to make one and waits for its end.
func (l *LateClient) Close() {
	l.refuse()
	l.running.Wait()
	l.client().Close()
	l.cancel()
}

// client returns the client, or the one that sends nothing.
func (l *LateClient) client() rueidis.Client {
	if made := l.made.Load(); made != nil {
		return *made
	}
	return l.Client
}

// B implements rueidis.Client, as the methods below do. A session calls no others.
func (l *LateClient) B() rueidis.Builder { return l.client().B() }

// Do implements rueidis.Client.
func (l *LateClient) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	return l.client().Do(ctx, command)
}

// DoMulti implements rueidis.Client.
func (l *LateClient) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	return l.client().DoMulti(ctx, commands...)
}

// Dedicate implements rueidis.Client.
func (l *LateClient) Dedicate() (rueidis.DedicatedClient, func()) { return l.client().Dedicate() }

// Nodes implements rueidis.Client.
func (l *LateClient) Nodes() map[string]rueidis.Client { return l.client().Nodes() }

// Mode implements rueidis.Client.
func (l *LateClient) Mode() rueidis.ClientMode { return l.client().Mode() }
