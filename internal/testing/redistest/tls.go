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
	"fmt"
	"math/big"
	"net"
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
