// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// DialRecorder records how the attempts of a client to connect ended. The client's own error often does not name
// the host, and says what the client could not read instead of what the host is. Explain says both.
type DialRecorder struct {
	options *rueidis.ClientOption
	next    DialFunc // makes the connections

	mu struct {
		sync.Mutex
		attempts []*dialAttempt
	}
}

// dialAttempt is one attempt to connect.
type dialAttempt struct {
	address string
	err     error // the reason why the attempt failed, or nil

	mu struct {
		sync.Mutex
		written greeting // what the client wrote before the host said anything
		first   []byte   // the first bytes that the host sent, maxFirst at most
		err     error    // the error that ended reading, or nil
	}
}

// maxFirst bytes are enough to recognise a protocol. maxAttempts bounds the record of a client that tries for long.
const maxFirst, maxAttempts = 64, 64

// NewDialRecorder returns a DialRecorder for the attempts of the client that is made from o. It keeps o.
func NewDialRecorder(o *rueidis.ClientOption) *DialRecorder {
	return &DialRecorder{options: o, next: GuardedDialer(o)}
}

// Restart forgets the attempts until now: what fails from now on is explained by later ones.
func (r *DialRecorder) Restart() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.attempts = nil
}

// Dial is a DialFunc.
func (r *DialRecorder) Dial(ctx context.Context, address string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	a := &dialAttempt{address: address}
	conn, err := r.next(ctx, address, dialer, config)
	a.err = err
	r.add(a)
	if err != nil {
		return nil, err
	}
	return &recordedConn{Conn: conn, attempt: a}, nil
}

func (r *DialRecorder) add(a *dialAttempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.attempts) < maxAttempts {
		r.mu.attempts = append(r.mu.attempts, a)
	}
}

// recordedConn is a connection whose first bytes are recorded. One goroutine of the client reads from it, and one writes.
type recordedConn struct {
	net.Conn

	attempt *dialAttempt
	said    atomic.Bool // the host has said something, so what the client writes is not recorded any more
	full    bool        // nothing more is recorded; only the reader uses it
}

// Read implements net.Conn.
func (c *recordedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.full {
		c.said.Store(n > 0 || c.said.Load())
		a := c.attempt
		a.mu.Lock()
		a.mu.first = append(a.mu.first, b[:min(n, maxFirst-len(a.mu.first))]...)
		a.mu.err = err
		c.full = len(a.mu.first) == maxFirst || err != nil
		a.mu.Unlock()
	}
	return n, err
}

// Write implements net.Conn.
func (c *recordedConn) Write(b []byte) (int, error) {
	if a := c.attempt; !c.said.Load() {
		a.mu.Lock()
		a.mu.written.noteWritten(b)
		a.mu.Unlock()
	}
	return c.Conn.Write(b)
}

// greeting returns the first bytes that the host sent, without passwords that it repeats, and the error that ended reading, or nil.
func (a *dialAttempt) greeting() (first string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests, _ := a.mu.written.parse()
	masked := append([]byte(" "), a.mu.first...) // maskSecrets leaves the first word
	maskSecrets(masked, passwords(requests))
	return string(masked[1:]), a.mu.err
}

// hostOf names the host of an attempt: in front of sentinels a sentinel and a server can fail alike.
func (r *DialRecorder) hostOf(a *dialAttempt) string {
	if r.options.Sentinel.MasterSet != "" && slices.Contains(r.options.InitAddress, a.address) {
		return "the sentinel " + a.address
	}
	return "the server " + a.address
}

// unreachable explains that no connection could be made. The error has the address. Behind sentinels that is one which was not
// configured here, such as one inside of a network of containers.
func (r *DialRecorder) unreachable(last *dialAttempt, err error) error {
	if r.options.Sentinel.MasterSet == "" || slices.Contains(r.options.InitAddress, last.address) {
		return Explain(err)
	}
	return fmt.Errorf("the primary that the sentinels name: %w (if the address cannot be reached from here, set the announced address of "+
		"servers and sentinels)", Explain(err))
}

// Explain returns an error that says which host is meant, what is wrong, and what to do, for an error of the first
// attempts. It may connect once more, to find out whether a port speaks TLS.
func (r *DialRecorder) Explain(ctx context.Context, err error) error {
	r.mu.Lock()
	attempts := slices.Clone(r.mu.attempts)
	r.mu.Unlock()
	var network *net.OpError
	switch {
	case errors.Is(err, rueidis.ErrNoSlot):
		return fmt.Errorf("%w: the cluster serves not all slots, redis-cli --cluster check lists them: %w", errs.ErrRefused, err)
	case len(attempts) == 0:
		return Explain(err)
	case errors.As(err, &network) && network.Op == "dial":
		return r.unreachable(attempts[len(attempts)-1], err)
	}
	from := attempts[len(attempts)-1]
	for _, a := range attempts { // of several addresses the last one may be away, and another has replied
		if a.err == nil || errors.Is(err, a.err) {
			from = a
		}
	}
	host := r.hostOf(from)
	if credentials := new(credentialsError); errors.As(err, &credentials) {
		return fmt.Errorf("%s: %w", host, err) // nothing was sent
	}
	if refusal := r.refusal(host, err); refusal != nil {
		return refusal
	}
	for _, a := range attempts {
		if fault := r.fault(ctx, a); fault.text != "" {
			return fault.of(r.hostOf(a))
		}
	}
	return fmt.Errorf("%s: %w", host, Explain(err))
}

// refusal explains what a server of the protocol replied. It returns nil if err is no reply.
func (r *DialRecorder) refusal(host string, err error) error {
	words := strings.ToLower(wordsOf(err))
	switch {
	case !IsReplyError(err):
		return nil
	case strings.Contains(words, "no such master"):
		return fault{kind: errs.ErrBadOption, text: "it watches no primary under the name in master_set"}.of(host)
	case strings.Contains(words, "unknown command 'sentinel"):
		return AsFinal(fault{kind: errs.ErrBadOption, text: "the server is not a sentinel, and master_set is for sentinels"}.of(host))
	case strings.Contains(words, "cluster support disabled") && len(r.options.InitAddress) > 1:
		return AsFinal(fault{kind: errs.ErrBadOption, text: "several addresses are those of a cluster, and this server is not in one: name one " +
			"address, or add master_set if these are sentinels"}.of(host))
	case strings.Contains(words, "db index is out of range"), strings.Contains(words, "select is not allowed"):
		return fault{kind: errs.ErrBadOption, text: fmt.Sprint("it has no database ", r.options.SelectDB), cause: err}.of(host)
	case errors.Is(err, errs.ErrDenied), errors.Is(err, errs.ErrRefused):
		return fmt.Errorf("%s: %w", host, err) // the first script was refused, and that is explained
	}
	return fmt.Errorf("%s: %w", host, Explain(err))
}

// fault is what is wrong with a host, and what to do. Without says nothing is wrong.
type fault struct {
	kind  error  // a sentinel, or nil
	text  string // the description of the fault
	cause error  // may be nil
}

func (f fault) of(host string) error {
	err := errors.New(host + ": " + f.text)
	if f.cause != nil {
		err = fmt.Errorf("%w: %w", err, f.cause)
	}
	if f.kind != nil {
		err = fmt.Errorf("%w: %w", f.kind, err)
	}
	return err
}

// fault returns what an attempt shows of its host.
func (r *DialRecorder) fault(ctx context.Context, a *dialAttempt) fault {
	if a.err != nil {
		return r.handshakeFault(a)
	}
	first, err := a.greeting()
	switch {
	case strings.HasPrefix(first, tlsAlert):
		return fault{kind: errs.ErrBadOption, text: useTLS}
	case first != "":
		return otherProgram(first)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault{kind: errs.ErrNoReply, text: "it accepts connections and says nothing", cause: err}
	case !r.isPlain():
		return fault{text: "the connection was closed behind the TLS handshake: if the server asks for a certificate of the client, " +
			"name its files by the parameters cert and key"}
	case r.speaksTLS(ctx, a.address):
		return fault{kind: errs.ErrBadOption, text: useTLS}
	}
	return fault{text: "the connection was closed before a reply: the port belongs to another program, to a proxy that does " +
		"not know HELLO, or to a server that accepts no client"}
}

// isPlain reports whether connections have no TLS.
func (r *DialRecorder) isPlain() bool {
	return r.options.TLSConfig == nil && r.options.Sentinel.TLSConfig == nil
}

// noTLS says what to do about a port that does not speak TLS. It never says to leave TLS out: who follows that sends the password in
// the clear.
func (r *DialRecorder) noTLS(address string) string {
	switch {
	case slices.Contains(r.options.InitAddress, address):
		return "name the server's TLS port; without TLS, by redis://, passwords are sent in the clear"
	case r.options.Sentinel.MasterSet != "":
		return "set tls-replication yes at the servers and the sentinels, which name this port"
	}
	return "set tls-cluster yes at the nodes of the cluster, which name this port"
}

// handshakeFault explains why an attempt got no TLS.
func (r *DialRecorder) handshakeFault(a *dialAttempt) fault {
	err := a.err
	var network *net.OpError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var dialer *connectError
	switch {
	case r.isPlain(), errors.As(err, &network) && network.Op == "dial", errors.As(err, &dialer):
		return fault{} // not about TLS
	case errors.As(err, &record):
		return fault{errs.ErrBadOption, "the port does not speak TLS: " + r.noTLS(a.address), err}
	case errors.As(err, &authority):
		return fault{text: "its certificate has an authority that this host does not trust: name the authority's file by the parameter ca", cause: err}
	case errors.As(err, &name):
		return fault{text: "its certificate is for another name: say which by the parameter server_name", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return fault{kind: errs.ErrNoReply, text: fmt.Sprintf("to the TLS handshake within %v: if the port does not speak TLS, %s",
			r.options.Dialer.Timeout, r.noTLS(a.address))}
	}
	return fault{text: "the TLS handshake failed", cause: err}
}

// speaksTLS reports whether a host accepts a TLS handshake. It sends nothing but the handshake, and believes no certificate.
func (r *DialRecorder) speaksTLS(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, r.options.Dialer.Timeout)
	defer cancel()
	conn, err := r.next(ctx, address, &r.options.Dialer, nil) // as the client does: a dialer of the service may lead elsewhere
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	host, _ := canonical(address, "")
	err = tls.Client(conn, &tls.Config{ServerName: host, InsecureSkipVerify: true}).HandshakeContext(ctx) //nolint:gosec // to find out, not to trust
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert) // such as: a certificate is required
}

const (
	useTLS   = "the port speaks TLS: write rediss:// instead of redis://"
	tlsAlert = "\x15\x03" // how an alert of TLS begins
)

// otherPrograms are how the words of other programs begin.
//
//nolint:gochecknoglobals // a constant table
var otherPrograms = []struct{ begins, is string }{
	{"HTTP/", "a web server"},
	{"SSH-", "an SSH server"},
	{"ERROR\r\n", "a memcached server"},
}

// otherProgram returns what the host is if what it said first is not the protocol of Redis.
func otherProgram(first string) fault {
	is := "another program"
	for _, s := range otherPrograms {
		if strings.HasPrefix(first, s.begins) {
			is = s.is
		}
	}
	if is == "another program" && strings.IndexByte("+-:$*_#,(!=%~>|", first[0]) >= 0 {
		return fault{}
	}
	line, _, _ := strings.Cut(first, "\r\n")
	return fault{kind: errs.ErrBadOption, text: fmt.Sprintf("this is %s, and not a Redis or Valkey server: its first words are %q", is, line)}
}

// RefusesClusterCommands reports whether the client of o could not be made because the server, a proxy it seems, refused the
// question for the cluster's nodes in words that the client does not know. It then serves as a single server.
func RefusesClusterCommands(o rueidis.ClientOption, err error) bool {
	words := wordsOf(err)
	return IsReplyError(err) && len(o.InitAddress) == 1 && o.Sentinel.MasterSet == "" && !o.ForceSingleClient &&
		!begins(words, temporaryRefusals) && !begins(words, denials)
}
