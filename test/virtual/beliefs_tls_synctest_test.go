// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// identity is a certificate that is its own authority, and its key.
type identity struct {
	pair             tls.Certificate
	certificate, key []byte // the texts of both in PEM
}

// tlsSides are the two sides of connections with TLS, as of now.
type tlsSides struct {
	folder         string // the folder of the client's files: ca, cert and key
	server, client *identity
}

func (o *outside) newIdentity() *identity {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(o, err)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(clientCount.Add(1)), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	require.NoError(o, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(o, err)
	return &identity{
		tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
}

// trusts returns the authorities of one identity.
func (i *identity) trusts() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.certificate)
	return pool
}

// write replaces a file of the client.
func (o *outside) write(name string, text []byte) {
	require.NoError(o, os.WriteFile(filepath.Join(o.tls.folder, "next"), text, 0o600))
	require.NoError(o, os.Rename(filepath.Join(o.tls.folder, "next"), filepath.Join(o.tls.folder, name)))
}

// present lets the servers have another certificate, and accept that of one client. nil leaves either as it is.
func (o *outside) present(server, client *identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if server != nil {
		o.tls.server = server
	}
	if client != nil {
		o.tls.client = client
	}
}

// withTLS lets a client connect as a URL says that names files.
func withTLS(o *outside, options *rueidis.ClientOption) {
	if o.tls.folder == "" {
		o.tls.folder = o.TempDir()
		server, client := o.newIdentity(), o.newIdentity()
		o.present(server, client)
		o.write("ca", server.certificate)
		o.write("cert", client.certificate)
		o.write("key", client.key)
	}
	values := url.Values{}
	for _, name := range []string{"ca", "cert", "key"} {
		values.Set(name, filepath.Join(o.tls.folder, name))
	}
	parsed, err := signalbox.ParseURL("rediss://127.0.0.1?" + values.Encode())
	require.NoError(o, err)
	options.TLSConfig = parsed.TLSConfig
}

// bufferedPipe returns the two ends of a pipe to which both sides may write at once, as those of TLS do.
func bufferedPipe() (near, far net.Conn) {
	near, a := net.Pipe()
	b, far := net.Pipe()
	between := new(wire)
	for from, to := range map[net.Conn]net.Conn{a: b, b: a} {
		go between.pump(from, to, &between.swallowsRequests, &between.swallowsReplies)
	}
	return near, far
}

// connect returns a connection over that of a link, with TLS if there is a configuration.
func (o *outside) connect(conn net.Conn, to *miniredis.Miniredis, config *tls.Config) (net.Conn, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hello != nil && to == o.redis {
		conn = &sayingConn{conn, o.hello}
	}
	if config == nil {
		return conn, nil
	}
	near, far := bufferedPipe()
	server := tls.Server(far, &tls.Config{
		Certificates: []tls.Certificate{o.tls.server.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: o.tls.client.trusts(),
	})
	forward := func(from, to net.Conn) {
		_, _ = io.Copy(to, from)
		_, _ = from.Close(), to.Close()
	}
	go forward(server, conn)
	go forward(conn, server)
	if config.ServerName == "" { // the host of the address, as in the client's own dialer
		config = config.Clone()
		config.ServerName = "127.0.0.1"
	}
	secure := tls.Client(near, config)
	if err := secure.Handshake(); err != nil {
		_ = secure.Close()
		return nil, err
	}
	return secure, nil
}

func certificateBeliefs() map[string]belief {
	renew := func(o *outside) *identity {
		renewed := o.newIdentity()
		o.write("cert", renewed.certificate)
		o.write("key", renewed.key)
		return renewed
	}
	return map[string]belief{
		"the certificate": {mod: withTLS, changes: func(o *outside) { o.present(nil, renew(o)) }},
		"the certificate, and a server that restarts": {mod: withTLS, changes: func(o *outside) {
			o.present(nil, renew(o))
			o.restart(func() {})
		}},
		"half of a certificate for a while": {mod: withTLS, says: files, changes: func(o *outside) {
			renewed := o.newIdentity()
			o.write("cert", renewed.certificate)
			time.Sleep(time.Minute)
			o.write("key", renewed.key)
			o.present(nil, renewed)
		}},
		"the certificate, which the server learns later": {mod: withTLS, says: replaced, changes: func(o *outside) {
			renewed := renew(o)
			time.Sleep(time.Minute)
			o.present(nil, renewed)
		}},
		"the authority": {mod: withTLS, changes: func(o *outside) {
			server := o.newIdentity()
			o.write("ca", server.certificate)
			o.present(server, nil)
		}},
		"the authority, whose file comes later": {mod: withTLS, says: replaced, changes: func(o *outside) {
			server := o.newIdentity()
			o.present(server, nil)
			time.Sleep(time.Minute)
			o.write("ca", server.certificate)
		}},
	}
}
