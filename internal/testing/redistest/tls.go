// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
)

// The files of a server that speaks TLS, in its folder.
const (
	authorityFile   = "authority.pem"
	certificateFile = "certificate.pem"
	keyFile         = "key.pem"
)

// tlsSetup is what a server and its clients need to speak TLS. All of it is made in this process for one
// server, and no other client or server trusts it.
type tlsSetup struct {
	authority, certificate, key string // PEM
	client                      *tls.Config
}

// newTLS makes a setup in which clients show no certificate.
func newTLS() (*tlsSetup, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	return a.setup()
}

// newMutualTLS makes a setup in which clients must show a certificate.
func newMutualTLS() (*tlsSetup, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	client, err := a.issue(x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	s, err := a.setup()
	if err != nil {
		return nil, err
	}
	s.client.Certificates = []tls.Certificate{client}
	return s, nil
}

// setup makes a server's certificate, and what a client needs to trust it.
func (a *authority) setup() (*tlsSetup, error) {
	server, err := a.issue(x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	key, err := x509.MarshalPKCS8PrivateKey(server.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("redistest: key: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(a.certificate)
	return &tlsSetup{
		authority:   armor("CERTIFICATE", a.certificate.Raw),
		certificate: armor("CERTIFICATE", server.Certificate[0]),
		key:         armor("PRIVATE KEY", key),
		client:      &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
	}, nil
}

// mutual reports whether clients must show a certificate.
func (s *tlsSetup) mutual() bool { return len(s.client.Certificates) > 0 }

func (s *tlsSetup) args() []string {
	clients := "no"
	if s.mutual() {
		clients = "yes"
	}
	return []string{
		"--tls-ca-cert-file", authorityFile,
		"--tls-cert-file", certificateFile,
		"--tls-key-file", keyFile,
		"--tls-auth-clients", clients,
	}
}

func (s *tlsSetup) files() []file {
	return []file{{authorityFile, s.authority}, {certificateFile, s.certificate}, {keyFile, s.key}}
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
