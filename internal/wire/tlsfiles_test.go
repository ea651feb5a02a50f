// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// authority issues certificates.
type authority struct {
	*testing.T

	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t}
	a.certificate, a.key = a.sign("authority")
	return a
}

// sign returns a certificate for a new key, which is its own authority if a has no key yet.
func (a *authority) sign(name string) (*x509.Certificate, *ecdsa.PrivateKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: a.certificate == nil,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	parent, parentKey := form, key
	if a.certificate != nil {
		parent, parentKey = a.certificate, a.key
	}
	signed, err := x509.CreateCertificate(rand.Reader, form, parent, key.Public(), parentKey)
	require.NoError(a, err)
	certificate, err := x509.ParseCertificate(signed)
	require.NoError(a, err)
	return certificate, key
}

func certificatePEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

func (a *authority) keyPEM(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// secureServer accepts clients of an authority, and says of each connection whose certificate it saw, and in which handshake.
type secureServer struct {
	*testing.T

	addr   string
	config *tls.Config
}

// startSecure starts a server with a certificate of a. It accepts the clients of both authorities.
func startSecure(a *authority, clients ...*authority) *secureServer {
	certificate, key := a.sign("server")
	trusted := x509.NewCertPool()
	for _, c := range append(clients, a) {
		trusted.AddCert(c.certificate)
	}
	s := &secureServer{T: a.T, config: &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	}}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", s.config)
	require.NoError(a, err)
	s.addr = listener.Addr().String()
	done := make(chan struct{})
	a.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*tls.Conn)) //nolint:forcetypeassert // of tls.Listen
		}
	}()
	return s
}

func (s *secureServer) serve(conn *tls.Conn) {
	defer conn.Close()
	if conn.Handshake() != nil {
		return
	}
	how := "long"
	if conn.ConnectionState().DidResume {
		how = "short"
	}
	_, _ = fmt.Fprintf(conn, "+%s by a %s handshake\r\n", conn.ConnectionState().PeerCertificates[0].Subject.CommonName, how)
	_, _ = conn.Read(make([]byte, 1)) // until the client closes it
}

// The files of ca, cert and key are read at each connection, and compared by what they say. What cannot be used leaves the last good
// files in use, and is named in the error if the connection fails. A handshake is short only between two connections of the same files.
func TestFilesOfTheURLAreReadAtEachConnection(t *testing.T) {
	t.Parallel()
	first, second := newAuthority(t), newAuthority(t)
	one, oneKey := first.sign("one")
	two, twoKey := first.sign("two")
	servers := map[string]*secureServer{"first": startSecure(first, second), "second": startSecure(second, first)}
	good := map[string]string{"ca": certificatePEM(first.certificate), "cert": certificatePEM(one), "key": first.keyPEM(oneKey)}
	with := func(changes ...string) map[string]string {
		files := map[string]string{"ca": good["ca"], "cert": good["cert"], "key": good["key"]}
		for i := 0; i < len(changes); i += 2 {
			files[changes[i]] = changes[i+1]
		}
		return files
	}
	const gone, long, short = "gone", "+one by a long handshake", "+one by a short handshake"
	type step struct {
		files  map[string]string
		server string
		want   string   // what the server says, or a part of the error
		errors []string // further parts of it
	}
	renewed := with("cert", certificatePEM(two), "key", first.keyPEM(twoKey))
	for name, steps := range map[string][]step{
		"unchanged": {{with(), "first", short, nil}},
		"renewed":   {{renewed, "first", "+two by a long handshake", nil}, {renewed, "first", "+two by a short handshake", nil}},
		"half a pair": {
			{with("cert", certificatePEM(two)), "first", short, nil},
			{renewed, "first", "+two by a long handshake", nil},
			{with("cert", certificatePEM(two)), "first", "two by a short handshake", nil},
		},
		"a file that is being written": {
			{with("key", first.keyPEM(oneKey)[:60]), "first", short, nil},
			{with("cert", certificatePEM(one)+certificatePEM(one)[:60]), "first", short, nil},
			{with("ca", ""), "first", short, nil},
			{with("ca", certificatePEM(second.certificate)+certificatePEM(first.certificate)[:60]), "first", short, nil},
		},
		"files that are gone": {
			{with("cert", gone, "key", gone, "ca", gone), "first", short, nil},
			{with("cert", gone, "ca", gone), "second", "unknown authority", []string{"ca: the file cannot be read", "cert and key: the file cannot be read"}},
		},
		"another authority": {
			{with("ca", certificatePEM(second.certificate)), "first", "unknown authority", nil},
			{with("ca", certificatePEM(second.certificate)), "second", long, nil},
			{with(), "second", "unknown authority", nil},
			{with("ca", certificatePEM(second.certificate)+certificatePEM(first.certificate)), "first", long, nil},
		},
		"another authority, and half a pair": {
			{with("ca", certificatePEM(second.certificate), "cert", certificatePEM(two)), "second", long, nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			place := func(files map[string]string) { // as Kubernetes does: all at once, and of the same time
				version, at := filepath.Join(t.TempDir()), time.Unix(1e9, 0)
				for name, text := range files {
					if text != gone {
						require.NoError(t, os.WriteFile(filepath.Join(version, name), []byte(text), 0o600))
						require.NoError(t, os.Chtimes(filepath.Join(version, name), at, at))
					}
				}
				link := filepath.Join(folder, "next")
				require.NoError(t, os.Symlink(version, link))
				require.NoError(t, os.Rename(link, filepath.Join(folder, "now")))
			}
			place(with())
			values := url.Values{}
			for name := range good {
				values.Set(name, filepath.Join(folder, "now", name))
			}
			o, err := wire.ParseURL("rediss://127.0.0.1?" + values.Encode())
			require.NoError(t, err)
			connector := wire.NewConnector(nil, wire.ConnectorOptions{})
			dial := func(server string) (string, error) {
				conn, err := connector.Dial(t.Context(), servers[server].addr, &net.Dialer{}, o.TLSConfig)
				if err != nil {
					return "", err
				}
				defer conn.Close()
				if _, err = conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
					return "", err
				}
				said, err := bufio.NewReader(conn).ReadString('\n')
				return strings.TrimSpace(said), err
			}
			said, err := dial("first")
			require.NoError(t, err)
			require.Equal(t, long, said)
			for i, s := range steps {
				place(s.files)
				said, err = dial(s.server)
				if err != nil {
					said = err.Error()
				}
				require.Contains(t, said, s.want, i)
				for _, more := range s.errors {
					require.Contains(t, said, more)
				}
			}
		})
	}
}
