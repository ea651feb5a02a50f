// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/words"
)

// serverFlags is what the flags and the environment say about the server, and about the keys of the locks.
type serverFlags struct {
	url           string
	user          string
	passwordFile  string
	nodes         []string
	ca, cert, key string
	serverName    string

	sentinelMaster       string
	sentinelUser         string
	sentinelPasswordFile string

	prefix string
	hashed bool
	layout layoutFlags

	notices          *notices
	files            map[string]*secretFile // by what they are
	sentinelPassword *secretFile            // the file that sentinelPasswordFile names, or nil
	reportsCalls     bool                   // the command says itself why its calls fail, and the session's log does not
}

// The variables of the environment. A flag wins over its variable. Either replaces the user and the password of the URL.
const (
	envURL                  = "SIGNALBOX_REDIS"
	envUser                 = "SIGNALBOX_USER"
	envPassword             = "SIGNALBOX_PASSWORD"
	envPasswordFile         = "SIGNALBOX_PASSWORD_FILE"
	envSentinelPassword     = "SIGNALBOX_SENTINEL_PASSWORD"
	envSentinelPasswordFile = "SIGNALBOX_SENTINEL_PASSWORD_FILE"
	envPrefix               = "SIGNALBOX_PREFIX"
)

// closeGrace is how long the end of a command waits for a release that the server has not confirmed.
const closeGrace = time.Second

// addServerFlags adds the flags that every command has which asks a server.
func addServerFlags(flags *pflag.FlagSet) *serverFlags {
	s := &serverFlags{notices: newNotices(unbroken{os.Stderr})}
	flags.StringVar(&s.url, "redis", variable(envURL), "`URL` of the server; better in $"+envURL+" if it has a password")
	flags.StringVar(&s.user, "user", variable(envUser), "`name` of the ACL user ($"+envUser+")")
	flags.StringVar(&s.passwordFile, "password-file", variable(envPasswordFile), "`file` with the password, if it is not in $"+envPassword+" ($"+envPasswordFile+")")
	flags.StringArrayVar(&s.nodes, "node", nil, "`host:port` of another node of the cluster, or another sentinel; can be repeated")
	flags.StringVar(&s.ca, "ca", "", "PEM `file`: trust these authorities and no others")
	flags.StringVar(&s.cert, "cert", "", "PEM `file` with the client's certificate")
	flags.StringVar(&s.key, "key", "", "PEM `file` with the key of --cert")
	flags.StringVar(&s.serverName, "server-name", "", "the `name` in the server's certificate, instead of its host")
	flags.StringVar(&s.sentinelMaster, "sentinel-master", "", "the URL names a sentinel, which watches a primary under this `name`")
	flags.StringVar(&s.sentinelUser, "sentinel-user", "", "`name` of the user at the sentinels")
	flags.StringVar(&s.sentinelPasswordFile, "sentinel-password-file", variable(envSentinelPasswordFile),
		"`file` with the password at the sentinels, if it is not in $"+envSentinelPassword+" ($"+envSentinelPasswordFile+")")
	flags.StringVar(&s.prefix, "prefix", variable(envPrefix), "`prefix` of all keys; \"sb:\" if none is given ($"+envPrefix+")")
	flags.BoolVar(&s.hashed, "hashed", false, "names are digests in the keys, as with WithHashedNames")
	s.layout.add(flags)
	hideDefaults(flags)
	return s
}

// hideDefaults keeps the values of the environment out of the help and the manual.
func hideDefaults(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "string" {
			f.DefValue = ""
		}
	})
}

// with returns the RunE of a command that does something with a session.
func (s *serverFlags) with(do func(cmd *cobra.Command, session *signalbox.Session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		defer s.notices.flush()
		session, err := s.dial(cmd.Context())
		if err != nil {
			return sessionError{err}
		}
		defer func() { _ = session.Close(context.WithoutCancel(cmd.Context())) }() // the command has reported what matters
		if err := do(cmd, session, args); err != nil {
			return sessionError{err}
		}
		return nil
	}
}

// watching is with for a command that lists again and again, and says itself why it cannot.
func (s *serverFlags) watching(do func(cmd *cobra.Command, session *signalbox.Session, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		s.reportsCalls = true
		return s.with(do)(cmd, args)
	}
}

// reportCall says why a call that is made again and again fails, once for each remedy, and that it succeeds again.
func (s *serverFlags) reportCall(subject string, err error) {
	if err == nil {
		s.notices.end(subject, subject+": the server replies again")
		return
	}
	remedy := remedyFor(err)
	line := words.OneLine(err)
	if remedy != "" {
		line += "; " + remedy
	}
	s.notices.begin(subject, strconv.Itoa(codeOf(sessionError{err}))+remedy, line)
}

// remedyFor says what to do about an error that lasts, "" if the error says it.
func remedyFor(err error) string {
	switch {
	case errors.Is(err, signalbox.ErrDenied):
		return "renew the password in its file, or grant the right that is missing: docs/security.md lists the rights"
	case errors.Is(err, signalbox.ErrRefused):
		return "docs/refusals.md says what the server's words mean"
	case codeOf(sessionError{err}) == codeUnavailable:
		return "check that the server runs, and the network, address and TLS settings of this command"
	}
	return ""
}

// variable returns the value of a variable of the environment, without a line end: secrets that are made from files have one.
func variable(name string) string { return strings.TrimRight(os.Getenv(name), "\r\n") }

// under says under which prefix names are, for a name that is not in use: a program may have another one.
func (s *serverFlags) under() string {
	if flag, _ := s.layout.chosen(); flag != "" {
		return "" // names are keys there
	}
	return fmt.Sprintf(" under %q", cmp.Or(s.prefix, defaultPrefix))
}

func (s *serverFlags) dial(ctx context.Context) (*signalbox.Session, error) {
	client, err := s.client(ctx)
	if err != nil {
		return nil, err
	}
	options := s.options()
	if s.sentinelPassword != nil {
		options = append(options, signalbox.WithSentinelCredentials(s.sentinelPassword.credentials(client.Sentinel.Username))) //nolint:contextcheck // a pipe was read before
	}
	return signalbox.DialWith(ctx, client, options...)
}

// client returns the options of a client of the server. Its password is read anew from its file for each connection; for that of the
// sentinels dial has an option.
func (s *serverFlags) client(ctx context.Context) (rueidis.ClientOption, error) {
	address, err := s.address(ctx)
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	client, err := signalbox.ParseURL(address) //nolint:contextcheck // it has no context, and bounds the time of its files
	if err != nil {
		return rueidis.ClientOption{}, err
	}
	if s.passwordFile != "" {
		file := s.file("password file", s.passwordFile)
		if _, err := file.read(ctx); err != nil {
			return rueidis.ClientOption{}, err
		}
		client.AuthCredentialsFn = file.credentials(client.Username) //nolint:contextcheck // a pipe was read before
	}
	return client, nil
}

// file returns a file with a secret, always the same one: what it keeps of a pipe cannot be read again.
func (s *serverFlags) file(what, path string) *secretFile {
	if s.files == nil {
		s.files = make(map[string]*secretFile)
	}
	f := s.files[what]
	if f == nil {
		f = &secretFile{what: what, path: path, notices: s.notices}
		s.files[what] = f
	}
	return f
}

// options returns what the flags say about keys and names.
func (s *serverFlags) options() []signalbox.SessionOption {
	log := slog.New(sessionLog{s.notices, !s.reportsCalls})
	options := []signalbox.SessionOption{signalbox.WithCloseGrace(closeGrace), signalbox.WithLogger(log)}
	if s.prefix != "" {
		options = append(options, signalbox.WithPrefix(s.prefix))
	}
	if s.hashed {
		options = append(options, signalbox.WithHashedNames())
	}
	if flag, layout := s.layout.chosen(); flag != "" {
		options = append(options, signalbox.WithDefaults(signalbox.WithLayout(layout)))
	}
	return options
}

// address returns the URL for signalbox.ParseURL, with what the flags and the environment add to it, except the password of a file.
// No server is assumed: cron starts programs with an empty environment, and locks at a server that another host does not use exclude
// nothing there.
func (s *serverFlags) address(ctx context.Context) (string, error) {
	if s.url == "" {
		return "", badUsage("no server: set %s or --redis, such as redis://localhost:6379", envURL)
	}
	u, err := url.Parse(strings.TrimSpace(s.url))
	if err != nil {
		return s.url, nil //nolint:nilerr // ParseURL says what is wrong, without the password
	}
	if s.passwordFile == "" {
		setUser(u, s.user, variable(envPassword))
	} else if user := cmp.Or(s.user, u.User.Username()); user != "" {
		u.User = url.User(user)
	} else {
		u.User = nil
	}
	sentinelPassword := variable(envSentinelPassword)
	if s.sentinelPasswordFile != "" {
		s.sentinelPassword = s.file("sentinel password file", s.sentinelPasswordFile)
		if sentinelPassword, err = s.sentinelPassword.read(ctx); err != nil {
			return "", err
		}
	}
	more := url.Values{}
	for _, node := range s.nodes {
		more.Add("addr", node)
	}
	for name, value := range map[string]string{
		"ca": s.ca, "cert": s.cert, "key": s.key, "server_name": s.serverName,
		"master_set": s.sentinelMaster, "sentinel_username": s.sentinelUser, "sentinel_password": sentinelPassword,
	} {
		if value != "" {
			more.Set(name, value)
		}
	}
	// What the URL has stays as it is: Dial checks it, and refuses a parameter that is there twice.
	u.RawQuery = strings.Trim(u.RawQuery+"&"+more.Encode(), "&")
	return u.String(), nil
}

// setUser replaces the user and the password of u by those that are given.
func setUser(u *url.URL, user, password string) {
	if user == "" && password == "" {
		return
	}
	if user == "" {
		user = u.User.Username()
	}
	if given, has := u.User.Password(); password == "" && has {
		password = given
	}
	u.User = url.UserPassword(user, password)
}
