// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

// Every part of a URL arrives in the options.
func TestParseReadsEveryPart(t *testing.T) {
	t.Parallel()
	o, err := ParseURL("redis://teller:s%40fe@one:7000/3?addr=two:7001&addr=[::1]:6379&dial_timeout=3s&write_timeout=4s&protocol=2" +
		"&client_name=till&client_cache=0&max_retries=0&master_set=main&sentinel_username=watch&sentinel_password=a%23b")
	require.NoError(t, err)
	require.Equal(t, []string{"one:7000", "two:7001", "[::1]:6379"}, o.InitAddress)
	require.Equal(t, "teller", o.Username)
	require.Equal(t, "s@fe", o.Password)
	require.Equal(t, 3, o.SelectDB)
	require.Equal(t, 3*time.Second, o.Dialer.Timeout)
	require.Equal(t, 4*time.Second, o.ConnWriteTimeout)
	require.True(t, o.AlwaysRESP2)
	require.True(t, o.DisableCache)
	require.True(t, o.DisableRetry)
	require.Equal(t, "till", o.ClientName)
	require.Equal(t, "main", o.Sentinel.MasterSet)
	require.Equal(t, "watch", o.Sentinel.Username)
	require.Equal(t, "a#b", o.Sentinel.Password)
	require.Nil(t, o.TLSConfig)
	require.Nil(t, o.Sentinel.TLSConfig)

	o, err = ParseURL("unix://:safe@/run/redis.sock?db=2")
	require.NoError(t, err)
	require.Equal(t, []string{"/run/redis.sock"}, o.InitAddress)
	require.True(t, o.ForceSingleClient)
	require.Equal(t, 2, o.SelectDB)
	o, err = ParseURL(" valkey://localhost\r\n")
	require.NoError(t, err)
	require.Equal(t, []string{"localhost:6379"}, o.InitAddress)
}

// What is unusual in a URL arrives as it is meant.
func TestParseReadsUnusualURLs(t *testing.T) {
	t.Parallel()
	type seen struct {
		addresses, user, password string
		db                        int
		tls                       bool
	}
	for address, want := range map[string]seen{
		"REDIS://H:06379": {"[H:06379]", "", "", 0, false},
		"Valkeys://h/15 ": {"[h:6379]", "", "", 15, true},
		"redis://[fe80::1%25eth0]?addr=[::2%25e]:7":    {"[[fe80::1%eth0]:6379 [::2%e]:7]", "", "", 0, false},
		"redis://h?addr=a:1&addr=a:1":                  {"[h:6379 a:1 a:1]", "", "", 0, false},
		"redis://user@h/2147483647":                    {"[h:6379]", "user", "", math.MaxInt32, false},
		"redis://us%20er:%25a+%3A%0A%00%C3%A9@h":       {"[h:6379]", "us er", "%a+:\n\x00é", 0, false},
		"redis://u:a:b@h":                              {"[h:6379]", "u", "a:b", 0, false},
		"unix://u:p%40@/run/a%20b.sock?db=3":           {"[/run/a b.sock]", "u", "p@", 3, false},
		"redis://:" + strings.Repeat("a", 9000) + "@h": {"[h:6379]", "", strings.Repeat("a", 9000), 0, false},
	} {
		o, err := ParseURL(address)
		require.NoError(t, err, address)
		require.Equal(t, want, seen{fmt.Sprint(o.InitAddress), o.Username, o.Password, o.SelectDB, o.TLSConfig != nil}, address)
	}
}

// TLS has its own authorities, certificate and name, for the server and for the sentinels.
func TestParseReadsCertificates(t *testing.T) {
	t.Parallel()
	certificate, key := certificateFiles(t)
	files := "&ca=" + url.QueryEscape(certificate) + "&cert=" + url.QueryEscape(certificate) + "&key=" + url.QueryEscape(key)
	_, err := ParseURL("rediss://one?skip_verify=true" + files)
	require.ErrorContains(t, err, "no effect beside skip_verify")
	o, err := ParseURL("rediss://one?skip_verify=true")
	require.NoError(t, err)
	require.True(t, o.TLSConfig.InsecureSkipVerify)
	o, err = ParseURL("rediss://one?skip_verify=false" + files)
	require.NoError(t, err)
	require.False(t, o.TLSConfig.InsecureSkipVerify)
	require.Empty(t, o.TLSConfig.ServerName, "a node that the cluster names has its own")
	require.NotNil(t, o.TLSConfig.RootCAs)
	require.Len(t, o.TLSConfig.Certificates, 1)

	o, err = ParseURL("rediss://one?master_set=main" + files)
	require.NoError(t, err)
	for _, c := range []*rueidis.ClientOption{{TLSConfig: o.TLSConfig}, {TLSConfig: o.Sentinel.TLSConfig}} {
		require.False(t, c.TLSConfig.InsecureSkipVerify)
		require.Empty(t, c.TLSConfig.ServerName, "each host has its own")
		require.True(t, o.TLSConfig.RootCAs.Equal(c.TLSConfig.RootCAs))
		require.Len(t, c.TLSConfig.Certificates, 1)
	}
	o, err = ParseURL("rediss://one?addr=two:6379")
	require.NoError(t, err)
	require.Empty(t, o.TLSConfig.ServerName)
	o, err = ParseURL("rediss://one?addr=two:6379&server_name=all")
	require.NoError(t, err)
	require.Equal(t, "all", o.TLSConfig.ServerName)
	o, err = ParseURL("valkeys://one?master_set=main&server_name=all")
	require.NoError(t, err)
	require.Equal(t, "all", o.TLSConfig.ServerName)
	require.Equal(t, "all", o.Sentinel.TLSConfig.ServerName)
}

// certificateFiles returns the files of a certificate that is its own authority, and of its key.
func certificateFiles(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	folder := t.TempDir()
	certificate, key = filepath.Join(folder, "certificate & more.pem"), filepath.Join(folder, "key.pem")
	require.NoError(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	return certificate, key
}

// What has no effect is refused, and the error names the parameter.
func TestParseRefusesWhatItWouldIgnore(t *testing.T) {
	t.Parallel()
	certificate, _ := certificateFiles(t)
	certificate = url.QueryEscape(certificate)
	noPair := "cert=" + certificate + "&key=" + certificate
	for address, says := range map[string]string{
		"redis://h?timeout=3s": "behind the ? it is number 1; known are addr, ca, cert,",
		"redis://h?Db=3":       "number 1",
		"redis://h?master_set=m&sentinel_password=a&zecret": "number 3",
		"redis://h?db=1&db=2":                               "db more than once",
		"redis://h/1?db=2":                                  "in its path",
		"redis://h?db=x":                                    "parameter db",
		"redis://h?db=-1":                                   "parameter db",
		"redis://h/-1":                                      "[/db]",
		"redis://h/2147483648":                              "[/db]",
		"redis+sentinel://h:26379/m":                        "the parameter master_set",
		"redis-socket:///run/s":                             "unix:///path",
		"redis://[fe80::1%eth0]":                            "the zone of an address write %25",
		"rediss://h:0":                                      "host:port",
		"redis://h?db=":                                     "parameter db",
		"redis://h?addr=":                                   "parameter addr",
		"redis://h?addr=two":                                "host:port",
		"redis://h?addr=two:70000":                          "host:port",
		"redis://h?addr=two:1,three:1":                      "host:port",
		"redis://h?addr=two:1,password=zecret":              "parameter addr: it has an =",
		"redis://h?addr=redis://two:1":                      "parameter addr: it is a URL",
		"redis://h?addr=:6379":                              "host:port",
		"redis://h?dial_timeout=3":                          "dial_timeout",
		"redis://h?dial_timeout=0s":                         "dial_timeout",
		"redis://h?write_timeout=-1s":                       "write_timeout",
		"redis://h?protocol=1":                              "protocol",
		"redis://h?protocol=":                               "protocol",
		"redis://h?client_cache=1":                          "client_cache",
		"redis://h?max_retries=3":                           "max_retries",
		"redis://h?client_name=":                            "client_name",
		"redis://h?master_set=":                             "master_set",
		"redis://h?sentinel_password=x":                     "sentinel_password is for sentinels",
		"redis://h?sentinel_username=x":                     "sentinel_username is for sentinels",
		"redis://h?master_set=m&sentinel_password=":         "sentinel_password",
		"redis://h?skip_verify=true":                        "skip_verify is for rediss",
		"redis://h?ca=x":                                    "ca is for rediss",
		"rediss://h?skip_verify=maybe":                      "skip_verify",
		"rediss://h?skip_verify=t":                          "skip_verify: it can only be true or false or 1 or 0",
		"redis://h?client_name=a%20b":                       "client_name in a URL",
		"rediss://h?ca=":                                    "parameter ca",
		"rediss://h?ca=/nowhere":                            "parameter ca: the file cannot be read",
		"rediss://h?ca=dialurl.go":                          "no certificate",
		"rediss://h?server_name=":                           "server_name",
		"rediss://h?cert=" + certificate:                    "need each other",
		"rediss://h?key=" + certificate:                     "need each other",
		"rediss://h?" + noPair:                              "cert and key: tls: found a certificate rather than a key",
		"rediss://h?cert=/nowhere&key=/nowhere":             "cert and key: the file cannot be read",
		"unix:///s?addr=h":                                  "addr is not for unix",
		"unix:///s?master_set=m":                            "master_set is not for unix",
		"redis://h?db=1;protocol=2":                         "cannot be read",
		"redis://h?db=%zz":                                  "cannot be read",
		"redis://h#1":                                       "%23",
	} {
		_, err := ParseURL(address)
		require.ErrorIs(t, err, errs.ErrBadOption, address)
		require.ErrorContains(t, err, says, address)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "nowhere", "a path is a value of the URL")
		require.NotContains(t, err.Error(), "zecret")
	}
}

// A URL that does not say what to connect to is refused: a lock on this host excludes no other one.
func TestParseRefusesAURLWithoutItsHost(t *testing.T) {
	t.Parallel()
	const variable = "environment variable"
	for address, says := range map[string]string{
		"redis:db.example.com:6379":               "no // behind its scheme",
		"redis:user:zecret@db.example.com:6379/0": "no // behind its scheme",
		"rediss:db":                   "no // behind its scheme",
		"valkey:db?addr=h:1":          "no // behind its scheme",
		"valkeys:":                    variable,
		"redis:":                      variable,
		"redis:/db/0":                 variable,
		"redis:///0":                  variable,
		"redis://":                    variable,
		"redis://:6379":               variable,
		"redis://user:zecret@:6379/0": variable,
		"redis://user:zecret@":        variable,
		"redis://?addr=h:1":           variable,
		"redis://h:":                  "a colon and no port",
		"redis://u:zecret@h:/0":       "a colon and no port",
		"redis://h:0":                 "host:port",
		"redis://h:70000":             "host:port",
		"redis://h1,h2:1":             "parameters addr",
		"redis://h1=zecret:1":         "it has an =",
		"unix:":                       "no path",
		"unix:run/redis.sock":         "three slashes",
		"unix://run/redis/redis.sock": "three slashes",
		"unix://user:zecret@localhost/run/redis.sock": "three slashes",
		"unix://":                  "no path",
		"unix:///":                 "no path",
		"unix://user:zecret@?db=1": "no path",
	} {
		o, err := ParseURL(address)
		require.ErrorIs(t, err, errs.ErrBadOption, address)
		require.ErrorContains(t, err, says, address)
		require.NotContains(t, err.Error(), "zecret", address)
		require.Empty(t, o.InitAddress)
	}
}

// A parameter without a value does not get the meaning that rueidis.ParseURL gives it: the variable behind it may not be set.
func TestParseRefusesEveryParameterWithoutAValue(t *testing.T) {
	t.Parallel()
	for name, p := range parameters {
		address := "rediss://h?"
		if p.scope == sentinels {
			address += "master_set=m&"
		}
		for _, empty := range []string{name, name + "=", name + "=%20"} {
			_, err := ParseURL(address + empty)
			require.ErrorIs(t, err, errs.ErrBadOption, empty)
			require.ErrorContains(t, err, "the parameter "+name+" has no value")
		}
	}
}

// No part of a password is in an error, wherever the password is and whatever is not escaped in it.
func TestParseErrorsNeverContainThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://u:zecret@h/x", "redis://u:zecret@h?nothing=1", "redis://u:ze%zzcret@h", "redis://u:ze/zecret@h", "redis://u:12#zecret@h",
		"redis://:12?zecret@h", "redis://:12?a=b&zecret@h", "redis://:12?zecret%zz@h", "redis://u:ze cret@h", "redis://:12/zecret@h", "zecret@h",
		"redis://h?sentinel_password=zecret", "redis://h?master_set=m&sentinel_password=zecret&sentinel_password=zecret",
		"redis://h?master_set=m&sentinel_password=ze%zzcret", "redis://h?master_set=m&sentinel_password=zecret;x", "redis://u:zecret@h:port",
		"redis://h?sentinel_password=x&master_set=m&db=zecret", "redis://[::1:zecret@h", "http://u:zecret@h", "redis://h/1/zecret",
	} {
		_, err := ParseURL(address)
		require.ErrorIs(t, err, errs.ErrBadOption, address)
		require.NotContains(t, err.Error(), "zecret", address)
		require.NotContains(t, err.Error(), "cret@", address)
	}
}

// The doc of Dial lists every parameter, and no other.
func TestDialDocumentsEveryParameter(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../dial.go")
	require.NoError(t, err)
	var documented, known []string
	for _, line := range regexp.MustCompile(`(?m)^//	([a-z_]+)(?:, ([a-z_]+))?  +\S`).FindAllStringSubmatch(string(source), -1) {
		for _, name := range line[1:] {
			if name != "" {
				documented = append(documented, name)
			}
		}
	}
	for name := range parameters {
		known = append(known, name)
	}
	require.ElementsMatch(t, known, documented)
}
