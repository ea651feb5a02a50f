// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strconv"
	"strings"
	"time"
)

// The files of a server that speaks TLS, in its folder.
const (
	certificateFile = "certificate.pem"
	keyFile         = "key.pem"
)

// tlsSetup is what a server and its clients need to speak TLS. All of it is made in this process for one
// server, and no other client or server trusts it.
type tlsSetup struct {
	certificate, key string // PEM
	client           *tls.Config
}

// certificateLife is how long certificates are valid, which is longer than any test. They are valid from an
// hour before now, because a test may set clocks back while it runs.
const certificateLife = 24 * time.Hour

// newTLS makes a certificate of this host that is its own authority. The server shows it, and so do clients if they must.
func newTLS(mutual bool) (*tlsSetup, error) { //nolint:revive // two options, one of each
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("redistest: key: %w", err)
	}
	now := time.Now()
	form := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("redistest: certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("redistest: key: %w", err)
	}
	s := &tlsSetup{armor("CERTIFICATE", der), armor("PRIVATE KEY", encoded), &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}}
	s.client.RootCAs.AppendCertsFromPEM([]byte(s.certificate))
	if mutual {
		s.client.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	}
	return s, nil
}

// mutual reports whether clients must show a certificate.
func (s *tlsSetup) mutual() bool { return len(s.client.Certificates) > 0 }

func (s *tlsSetup) args() []string {
	clients := "no"
	if s.mutual() {
		clients = "yes"
	}
	return []string{
		"--tls-ca-cert-file", certificateFile,
		"--tls-cert-file", certificateFile,
		"--tls-key-file", keyFile,
		"--tls-auth-clients", clients,
	}
}

func (s *tlsSetup) files() []file {
	return []file{{certificateFile, s.certificate}, {keyFile, s.key}}
}

// hint says what to do about a server that did not start for a reason that its log does not name.
func (s *Server) hint(log *tail) string {
	if s.set.tls != nil && strings.Contains(log.String(), "tls-port") {
		return fmt.Sprintf("; it was built without TLS: name a server that has it in %s, as Debian's and most others do", ServerEnv)
	}
	return ""
}

func armor(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// Option changes how servers are started.
type Option func(*config)

type config struct {
	args     []string
	failover time.Duration // 0: as quick as can be
	steps    *Clock        // the clock that the test sets, or nil
	links    bool          // nodes of a cluster have proxies before them
	secure   func() (*tlsSetup, error)
}

// WithArgs adds arguments to the command line of the server, such as "--maxmemory",
// "2mb", or of every server with data if there are more. They come last, so they win over
// those of this package. They must not set port, bind or requirepass, which this package needs
// as they are.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, args...) }
}

// WithFailoverAfter sets how long sentinels, or the nodes of a cluster, must have had no reply from a primary
// before its replica takes over. The default is as short as possible, for tests that wait for a failover. A
// test in which no failover must happen sets a time that no busy machine reaches, since a dead primary
// and a machine that stalls are alike.
func WithFailoverAfter(d time.Duration) Option {
	return func(c *config) { c.failover = d }
}

// WithTLS makes the server speak TLS, with a certificate made for it, and take clients that
// show none. Its Client and its Do know what to trust. It is for single servers.
func WithTLS() Option {
	return func(c *config) { c.secure = func() (*tlsSetup, error) { return newTLS(false) } }
}

// WithClientCertificates is WithTLS where clients must show a certificate, as those of Client and
// Do can.
func WithClientCertificates() Option {
	return func(c *config) { c.secure = func() (*tlsSetup, error) { return newTLS(true) } }
}

func newConfig(opts []Option) config {
	var c config
	for _, o := range opts {
		o(&c)
	}
	return c
}

// several checks that nothing was asked for that only a single server does.
func (c config) several() error {
	if c.secure != nil || c.steps != nil {
		return errors.New("redistest: TLS, and a clock of its own, are for single servers")
	}
	return nil
}

// setup is what a single server is started as.
func (c config) setup() (setup, error) {
	s := setup{args: c.args, steps: c.steps}
	if c.secure != nil {
		var err error
		if s.tls, err = c.secure(); err != nil {
			return setup{}, err
		}
	}
	return s, nil
}

// setup is what a server is started as.
type setup struct {
	bus   bool     // the server speaks to the other nodes of a cluster, on a port of its own
	first []string // words that come before all options
	args  []string // come last, so they win
	files []file   // the files in the server's folder when it starts
	keeps string   // the one that it rewrites, and finds again after a Restart
	tls   *tlsSetup
	steps *Clock // the clock that the test sets, or nil
}

// line is the command line of a server without persistence. DEBUG is enabled because DEBUG SLEEP
// is the simplest way to a server that is busy; before Redis 7.0 it always is. The server replies BUSY to no client, however long a
// script takes: on a loaded machine a script can take longer than the usual five seconds.
func (s *setup) line(binary string, port, bus int) []string {
	line := append([]string(nil), s.first...)
	line = append(line,
		"--bind", "127.0.0.1",
		"--save", "",
		"--appendonly", "no",
		"--daemonize", "no",
		"--lua-time-limit", "0", // what newer servers call busy-reply-threshold
	)
	if !isOld(binary) {
		line = append(line, "--enable-debug-command", "local")
	}
	if s.tls == nil {
		line = append(line, "--port", strconv.Itoa(port))
	} else {
		line = append(line, "--port", "0", "--tls-port", strconv.Itoa(port))
		line = append(line, s.tls.args()...)
	}
	if bus != 0 && !isOld(binary) {
		line = append(line, "--cluster-port", strconv.Itoa(bus))
	}
	return append(line, s.args...)
}

// contents are the files of the next process; kept is what the last one left of the one it keeps.
func (s *setup) contents(kept string) []file {
	files := append([]file(nil), s.files...)
	if s.tls != nil {
		files = append(files, s.tls.files()...)
	}
	if kept == "" {
		return files
	}
	for i := range files {
		if files[i].name == s.keeps {
			files[i].text = kept
			return files
		}
	}
	return append(files, file{s.keeps, kept})
}

// milliseconds formats a duration for the command line of a server.
func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
