// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// tlsFiles are the files that a URL names for TLS. They are read for each connection, once, since they may be replaced while a program
// runs. What they say is compared, and not their times: a link that is swapped may lead to a file of the same time.
//
// A file that cannot be read or is broken, and a certificate without its key, may be about to be replaced. Then connections use the
// last good ones, and the reason is a failure. Reading may hang, as on a network: it costs a connection a part of its time, and no
// file is read again before its last read has returned.
//
// A tlsFiles is the session cache of the configuration in the client's options, so that a Connector recognises it there, whatever
// dialer the client has. Each connection gets a configuration of its own from it, whose session cache is that of the generation of
// the files: a short handshake shows and checks no certificate.
type tlsFiles struct {
	authorities, certificate, key *tlsReader // nil for no file

	mu struct {
		sync.Mutex
		first, last *tlsGeneration // what the client's options have, and what connections use
	}
}

// tlsReader reads one file. The lock of its tlsFiles is held while it is read.
type tlsReader struct {
	path  string
	bytes func(path string) ([]byte, error) // os.ReadFile, except in a test
	reads *boundCalls                       // one at a time
}

func newTLSReader(path string) *tlsReader {
	if path == "" {
		return nil
	}
	return &tlsReader{path, os.ReadFile, newBoundCalls("reading the file", 1)}
}

// tlsGeneration is what good files said at a time.
type tlsGeneration struct {
	tls.ClientSessionCache

	authoritiesText, certificateText, keyText []byte

	trusted *x509.CertPool    // nil for those of the system
	own     []tls.Certificate // the client's, none or one
}

// readTLSFiles reads the files for the first time.
func readTLSFiles(ctx context.Context, authorities, certificate, key string) (*tlsFiles, error) {
	f := &tlsFiles{authorities: newTLSReader(authorities), certificate: newTLSReader(certificate), key: newTLSReader(key)}
	first, err := f.read(ctx, &tlsGeneration{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrBadOption, err)
	}
	f.mu.first, f.mu.last = first, first
	return f, nil
}

// setIn gives a configuration what the files say.
func (f *tlsFiles) setIn(config *tls.Config) {
	config.RootCAs, config.Certificates, config.ClientSessionCache = f.mu.first.trusted, f.mu.first.own, f
}

// Get implements tls.ClientSessionCache, for a client that is not tuned.
func (f *tlsFiles) Get(key string) (*tls.ClientSessionState, bool) { return f.mu.first.Get(key) }

// Put implements tls.ClientSessionCache.
func (f *tlsFiles) Put(key string, state *tls.ClientSessionState) { f.mu.first.Put(key, state) }

// readShare is the part of the time for a connection that reading its files may take, and readTimeout what they may take without a limit.
const readShare, readTimeout = 4, 500 * time.Millisecond

// currentTLS returns the configuration for a new connection, and why files of it cannot be used as they are. It ends long before ctx.
func currentTLS(ctx context.Context, config *tls.Config) (now *tls.Config, fault error) {
	if config == nil {
		return nil, nil
	}
	f, is := config.ClientSessionCache.(*tlsFiles)
	if !is {
		return config, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock() // of one generation at a time: connections are not made often
	limit := readTimeout
	if end, has := ctx.Deadline(); has {
		limit = time.Until(end) / readShare
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	f.mu.last, fault = f.read(ctx, f.mu.last)
	now = config.Clone()
	now.ClientSessionCache = f.mu.last
	if config.RootCAs == f.mu.first.trusted { // the program has not set others since
		now.RootCAs = f.mu.last.trusted
	}
	if isSameCertificate(config.Certificates, f.mu.first.own) {
		now.Certificates = f.mu.last.own
	}
	return now, fault
}

func isSameCertificate(a, b []tls.Certificate) bool {
	return len(a) == len(b) && (len(a) == 0 || len(a) == 1 && bytes.Equal(a[0].Certificate[0], b[0].Certificate[0]))
}

// read returns what the files say now: last if that has not changed. What cannot be used stays as it is in last.
func (f *tlsFiles) read(ctx context.Context, last *tlsGeneration) (now *tlsGeneration, fault error) {
	next, changed := *last, false
	next.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	authorities, certificateOf, keyOf := f.authorities.read(ctx), f.certificate.read(ctx), f.key.read(ctx)
	if f.authorities != nil {
		text, err := authorities()
		if err == nil && !bytes.Equal(text, last.authoritiesText) {
			if trusted := x509.NewCertPool(); trusted.AppendCertsFromPEM(text) {
				next.authoritiesText, next.trusted, changed = text, trusted, true
			} else {
				err = errors.New("the file has no certificate in PEM")
			}
		}
		if err != nil {
			fault = fmt.Errorf("the parameter ca: %w", err)
		}
	}
	if f.certificate != nil {
		certificate, err := certificateOf()
		key, keyErr := keyOf()
		if err = errs.Join(err, keyErr); err == nil && !(bytes.Equal(certificate, last.certificateText) && bytes.Equal(key, last.keyText)) {
			var pair tls.Certificate
			if pair, err = tls.X509KeyPair(certificate, key); err == nil {
				next.certificateText, next.keyText, next.own, changed = certificate, key, []tls.Certificate{pair}, true
			}
		}
		if err != nil {
			fault = errs.Join(fault, fmt.Errorf("the parameters cert and key: %w", err))
		}
	}
	if !changed && last.ClientSessionCache != nil {
		return last, fault
	}
	return &next, fault
}

// read begins to read a file, and returns a function that returns its text. A block that has begun and does not end is an error: the
// file may be being written.
func (r *tlsReader) read(ctx context.Context) func() ([]byte, error) {
	if r == nil {
		return nil
	}
	var text []byte
	var err error
	var reading sync.WaitGroup
	reading.Go(func() { // ends with ctx
		text, err = within(ctx, r.reads, func() ([]byte, error) { return r.bytes(r.path) }, func([]byte) {})
	})
	return func() ([]byte, error) {
		if reading.Wait(); err != nil {
			return nil, unreadable(err)
		}
		rest := text
		for block := new(pem.Block); block != nil; {
			block, rest = pem.Decode(rest)
		}
		if bytes.Contains(rest, []byte("-----BEGIN")) {
			return nil, errors.New("the file ends inside a block of PEM")
		}
		return text, nil
	}
}

// faultError is the reason why a connection cannot be made, while files cannot be used as they are, which may be why.
type faultError struct{ err, fault error }

func (e *faultError) Error() string {
	return fmt.Sprintf("%v (the last good files are used: %v)", e.err, e.fault)
}

func (e *faultError) Unwrap() error { return e.err }

// withFault adds the fault to the reason why a connection cannot be made, if there are both.
func withFault(err, fault error) error {
	if err == nil || fault == nil {
		return err
	}
	return &faultError{err, fault}
}
