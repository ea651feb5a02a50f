// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	_ "embed" // for testdata/defaults
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// A case of testdata/*.txt has calls of scripts. Behind a call stands what it returned, below it what it published, and below the last
// one, behind "=", what is left: each key, its life and its value. Several calls may share a line, with ";" between. A blank line
// separates two cases. The first line of a case names the promise. The file's name begins with the folder of the scripts.
//
//	# P3: the short release leaves the floor
//	enter a1 life_us=30s -> @0s; wait 3s
//	free a1 used=@5us -> 1
//	= holder (1m30s): sb1- @5µs
//
// A call is a script, the attempts that it is for, and the arguments that differ from testdata/defaults. A line of that file is a pattern
// of scripts, the name of an argument in their headers, and its value; the last line that matches counts. [call.text] lists what a value
// may contain. keys=2 sends the first two keys only, keys=x,y these keys, and argv=x,y these arguments. Other lines of a case:
//
//	wait 3s                     advances the clock; keys expire
//	listen grants:$b            subscribes to a channel
//	expire holder 1m            gives a key a life
//	do SET holder any-text      sends a command whose first argument is a key
//	300 do ZADD queue {n} x{n}  repeats a call, or several with "&" between, for n from 1 to 300, and shows the last reply; {n:18} has 18
//	                            digits
//
// A call with server=full finds a server whose memory is full, server=-PEXPIRE,-DEL one that denies these commands,
// server=?SPUBLISH one that does not know it, and server=modern one that has what came with Redis 7.0. With server=commands the reply
// is what the script asks of the server.
//
// -update writes all but the calls, for a reviewer of the diff.
func TestScripts(t *testing.T) {
	t.Parallel()
	for _, world := range worlds() {
		if world != virtual && world != single {
			continue // one server shows what a script does
		}
		for file, cases := range dataFiles() {
			t.Run(world+"/"+file, func(t *testing.T) {
				t.Parallel()
				played := make([]string, len(cases))
				for i, c := range cases {
					played[i] = c.text // if it fails
					t.Run(c.title(), func(t *testing.T) { played[i] = c.play(t, world) })
				}
				if *update {
					require.NoError(t, os.WriteFile("testdata/"+file+".txt", []byte(strings.Join(played, "\n\n")+"\n"), 0o600))
				}
			})
		}
	}
}

// dataCase is a case of a data file.
type dataCase struct{ file, text string }

// dataFiles returns the cases of each file of testdata.
func dataFiles() map[string][]dataCase {
	all := make(map[string][]dataCase)
	files, _ := filepath.Glob("testdata/*.txt") // this pattern is not malformed
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			panic(err)
		}
		file := strings.TrimSuffix(filepath.Base(name), ".txt")
		for c := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n\n") {
			all[file] = append(all[file], dataCase{file, c})
		}
	}
	return all
}

// name returns how faults.txt and the verdicts of mutants call the case.
func (c dataCase) name() string { return c.file + "/" + c.title() }

func (c dataCase) title() string {
	title, _, _ := strings.Cut(c.text, "\n")
	return strings.TrimPrefix(title, "# ")
}

// play plays the case and returns what came of it, which is the case itself, unless under -update.
func (c dataCase) play(t *testing.T, world string) (got string) {
	t.Helper()
	inWorld(t, world, 1, func(w *World) {
		folder, _, _ := strings.Cut(c.file, "_")
		played := newScene(w, folder).play(c.text)
		if *update {
			got = played
			return
		}
		require.Equal(w, c.text, played, "cd test && go test ./suite -run '%s'", w.Name())
	})
	return got
}

// noon is where the clock of a scene begins, in microseconds: a time in 2026.
const noon = 1_780_000_000_000_000

// scene is the keys and the clock of one case.
type scene struct {
	*World

	folder     string        // the folder of the scripts
	base       string        // the prefix of channels of sessions
	prefix     string        // the prefix of all keys and other channels
	clock      time.Duration // the time since noon
	heartbeats int           // the number of heartbeats so far
	ends       int           // how often the messages were read

	subscriptions []subscription
	messages      chan string // the messages in the order of their arrival
}

func newScene(w *World, folder string) *scene {
	w.Helper()
	s := &scene{World: w, folder: folder, base: w.prefix + "sb:", prefix: w.prefix + "sb:{name}:", messages: make(chan string, 2000)}
	s.listen(func(c rueidis.Builder) rueidis.Completed { return c.Psubscribe().Pattern(s.base + "*").Build() })
	return s
}

// subscription is one of a scene.
type subscription struct {
	to    func(c rueidis.Builder) rueidis.Completed
	ended <-chan error // receives when its connection has ended
}

// listen makes a subscription, and returns when it is there.
func (s *scene) listen(to func(c rueidis.Builder) rueidis.Completed) {
	s.Helper()
	c, release := s.admins[0].Dedicate()
	s.atEnd(release)
	confirmed := make(chan struct{}, 1)
	ended := c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Pattern != "" { // else it is heard twice
				s.messages <- strings.TrimPrefix(strings.TrimPrefix(m.Channel, s.base), s.prefix[len(s.base):]) + " " + m.Message
			}
		},
		OnSubscription: func(rueidis.PubSubSubscription) { confirmed <- struct{}{} },
	})
	require.NoError(s, c.Do(s.Context(), to(s.admins[0].B())).Error())
	redistest.Receive(s, "a subscription", confirmed)
	s.subscriptions = append(s.subscriptions, subscription{to, ended})
}

// listenAgain makes those subscriptions again whose connections have ended.
func (s *scene) listenAgain() {
	s.Helper()
	all := s.subscriptions
	s.subscriptions = nil
	for _, each := range all {
		if len(each.ended) > 0 {
			s.listen(each.to)
		} else {
			s.subscriptions = append(s.subscriptions, each)
		}
	}
}

// do sends a command.
func (s *scene) do(words ...any) (any, error) {
	text := make([]string, len(words))
	for i, word := range words {
		text[i] = fmt.Sprint(word)
	}
	reply, err := s.admins[0].Do(s.Context(), s.admins[0].B().Arbitrary(text...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	return reply, err
}

// MustDo sends a command that succeeds.
func (s *scene) MustDo(tb testing.TB, words ...any) any {
	tb.Helper()
	reply, err := s.do(words...)
	require.NoError(tb, err)
	return reply
}

// play runs a case, and returns it with what the calls returned, published and left.
func (s *scene) play(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "", line[0] == ' ', line[0] == '=': // of the run before
		case line[0] == '#':
			out = append(out, line)
		default:
			var calls, published []string
			for call := range strings.SplitSeq(line, "; ") {
				call, _, _ = strings.Cut(call, " -> ")
				got := s.line(call)
				calls, published = append(calls, got[0]), append(published, got[1:]...)
			}
			out = append(append(out, strings.Join(calls, "; ")), published...)
		}
	}
	return strings.Join(append(out, s.state()...), "\n")
}

// line runs a line of a case, and returns it with what it caused.
func (s *scene) line(line string) (out []string) {
	s.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	literal := &call{scene: s}
	if times, err := strconv.Atoi(verb); err == nil {
		for n := 1; n <= times; n++ {
			for each := range strings.SplitSeq(rest, " & ") {
				out = s.line(counter.ReplaceAllStringFunc(each, func(m string) string {
					width, _ := strconv.Atoi(counter.FindStringSubmatch(m)[1])
					return fmt.Sprintf("%0*d", width, n)
				}))
			}
		}
		_, reply, _ := strings.Cut(out[0], " -> ")
		return append([]string{line + " -> " + reply}, out[1:]...)
	}
	switch verb {
	case "wait":
		s.wait(literal.duration(rest))
		return []string{line}
	case "expire":
		key, life, _ := strings.Cut(rest, " ")
		ends := redistest.LaterMS + (noon+(s.clock+literal.duration(life)).Microseconds())/1000
		s.MustDo(s, "PEXPIREAT", s.prefix+key, ends)
		return []string{line}
	case "listen":
		s.listen(func(c rueidis.Builder) rueidis.Completed {
			return c.Subscribe().Channel(s.prefix + literal.text(rest)).Build()
		})
		return []string{line}
	}
	var reply any
	var err error
	if verb == "do" {
		var words []any
		for word := range strings.FieldsSeq(rest) {
			words = append(words, literal.text(word))
		}
		words[1] = s.prefix + words[1].(string)
		reply, err = s.do(words...)
	} else {
		reply, err = s.call(line)
	}
	if err != nil {
		reply = err
	}
	out = []string{line + " -> " + s.tidy(shown(reply))}
	for _, m := range few(s.published()) {
		out = append(out, "  published "+m)
	}
	return out
}

// published returns the messages since the last call: those before one that it publishes itself, again and again until it has come,
// since a connection that ends loses what is on its way.
func (s *scene) published() (all []string) {
	s.Helper()
	s.ends++
	const end = "the end of the messages "
	mine := end + strconv.Itoa(s.ends)
	again := time.NewTicker(time.Second)
	defer again.Stop()
	late := time.NewTimer(redistest.WaitLimit)
	defer late.Stop()
	for s.MustDo(s, "PUBLISH", s.prefix+"end", mine); ; {
		select {
		case m := <-s.messages:
			if strings.HasSuffix(m, mine) {
				return all
			} else if !strings.Contains(m, end) { // else it is that of an earlier call, for the second time
				all = append(all, strings.Join(few(strings.Fields(s.tidy(m))), " "))
			}
		case <-again.C:
			s.listenAgain()
			s.MustDo(s, "PUBLISH", s.prefix+"end", mine)
		case <-late.C:
			require.FailNow(s, "messages do not arrive")
		}
	}
}

// counter is what a line that is repeated has in place of its number.
var counter = regexp.MustCompile(`\{n(?::(\d+))?\}`)

// field is a line of a header about a key or an argument. One of a group has the index n.
var field = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[(\d+)\]  (\w+)`)

// call is a call of a script.
type call struct {
	*scene

	script   *scripts.Script   // the script, nil for a line that calls none
	attempts []string          // the attempts that the call names
	given    map[string]string // the values that the call names
	used     map[string]bool   // the names of the values that were used
}

// call runs a script.
func (s *scene) call(line string) (any, error) {
	s.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	c := &call{scene: s, given: make(map[string]string), used: map[string]bool{"keys": true, "argv": true, "server": true}}
	c.script = scripts.Load(path.Join(s.folder, verb), 1)
	if c.script == nil {
		c.script = scripts.Load(verb, 1)
	}
	require.NotNil(s, c.script, "no script for %q", line)
	for word := range strings.FieldsSeq(rest) {
		if name, value, ok := strings.Cut(word, "="); ok {
			c.given[name] = value
		} else {
			c.attempts = append(c.attempts, word)
		}
	}
	var keys []string
	var args []any
	argv, replaced := c.given["argv"]
	for _, m := range field.FindAllStringSubmatch(c.script.Source, -1) {
		if m[1] == "KEYS" {
			keys = append(keys, m[3])
		} else if !replaced {
			args = append(args, c.argument(m[3]))
		}
	}
	if list, ok := c.given["keys"]; ok {
		if n, err := strconv.Atoi(list); err == nil {
			keys = keys[:n]
		} else {
			keys = strings.Split(list, ",")
		}
	}
	if replaced {
		for value := range strings.SplitSeq(argv, ",") {
			args = append(args, c.text(value))
		}
	}
	for name := range c.given {
		require.True(s, c.used[name], "%s has no %s", c.script.Name, name)
	}
	text, args := numeric+redistest.Timed+special+c.script.Source, append(args, c.given["server"])
	if c.given["server"] == "commands" {
		text = numeric + redistest.Timed + special + "local function script()\n" + c.script.Source + "\nend\nscript()\nreturn table.concat(commands, ' ')"
	}
	words := []any{"EVAL", text, len(keys)}
	for _, key := range keys {
		words = append(words, s.prefix+key)
	}
	now := noon + s.clock.Microseconds()
	return s.do(append(append(words, args...), now/1_000_000, now%1_000_000)...)
}

// numeric goes before a script: the embedded interpreter formats no text as a number.
const numeric = `local texts = string
local string = setmetatable({format = function(how, value, ...)
  return texts.format(how, tonumber(value) or value, ...)
end}, {__index = texts})
`

// special goes before a script: its last argument says what is special about the server, and nothing else of the server shows. As a
// server does, it refuses what takes memory only before the first write.
const special = `local below, how, has_written, commands = redis, table.remove(ARGV), false, {}
local takes, frees = 'SET HSET HINCRBY ZADD RPUSH LPUSH SADD INCR INCRBY SETRANGE ZINCRBY ', 'DEL UNLINK PEXPIRE ZREM HDEL SREM LREM LPOP ZPOPMIN '
local function refusal(command)
  commands[#commands + 1] = command
  if string.find(how .. ',', '-' .. command .. ',', 1, true) then
    return 'NOPERM ' .. command
  end
  if string.find(how .. ',', '?' .. command .. ',', 1, true) then
    return 'unknown command ' .. command
  end
  local takes_memory = string.find(takes, command .. ' ', 1, true)
  if takes_memory and how == 'full' and not has_written then
    return 'OOM ' .. command
  end
  has_written = has_written or takes_memory or string.find(frees, command .. ' ', 1, true)
end
local redis = setmetatable({
  call = function(command, ...)
    local why = refusal(command)
    assert(not why, why)
    return below.call(command, ...)
  end,
  pcall = function(command, ...)
    local why = refusal(command)
    if why then
      return {err = why}
    elseif command == 'INFO' then
      return 'maxmemory:1000\nmaxmemory_policy:noeviction\nrun_id:life'
    end
    return below.pcall(command, ...)
  end,
}, {__index = function(_, name)
  if name == 'REDIS_VERSION_NUM' then
    return how == 'modern' and 0x00070000 or nil
  end
  return below[name]
end})
`

// argument returns the value of an argument: the one that the call names, or the default.
func (c *call) argument(name string) string {
	c.Helper()
	value, ok := c.given[name]
	c.used[name] = true
	if !ok {
		value, ok = defaultOf(c.script.Name, name)
	}
	if name[0] == '_' {
		return value // the script does not use it
	}
	require.True(c, ok, "testdata/defaults has no %s of %s", name, c.script.Name)
	return inUnit(name, c.text(value))
}

//go:embed testdata/defaults
var defaults string

// defaultOf returns the default of an argument of a script.
func defaultOf(script, name string) (value string, ok bool) {
	for line := range strings.Lines(defaults) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if matches, _ := path.Match(f[0], script); matches && f[1] == name {
			value, ok = strings.Join(f[2:], ""), true
		}
	}
	return value, ok
}

// inUnit writes a length of time in the unit that ends the name of the argument, and a weight in ten digits.
func inUnit(name, value string) string {
	d, err := time.ParseDuration(value)
	switch {
	case name == "weight":
		return fmt.Sprintf("%010s", value)
	case err != nil || value == "0":
	case strings.HasSuffix(name, "_us"):
		return strconv.FormatInt(d.Microseconds(), 10)
	case strings.HasSuffix(name, "_ms"):
		return strconv.FormatInt(d.Milliseconds(), 10)
	}
	return value
}

// placeholder is what text replaces: a name in braces, a session or an id, a stamp.
var placeholder = regexp.MustCompile(`\$\{([a-z_]+)([+-]\w+)?(:\w+)?\}|\$\{?([a-z])(\d*)\}?|@(-?[0-9][0-9a-zµ.]*)`)

// text returns the value with its placeholders replaced:
//
//	$a, $a1, ${a1}          a session, and the id of its first attempt
//	@5us                    a stamp after noon
//	${who}, ${whose}        the id of the first attempt that the call names, and its session
//	${second}               the id of the second one
//	${others}               the attempts behind the first one, without their session
//	${others:mode}          the same, each with the value of mode behind it
//	${now}, ${now+3s}       a stamp of the clock, and one after that
//	${heartbeat}            the number of the next heartbeat
//	${prefix}               of keys and channels
//	${mode}                 the argument mode
//	${nonce}                11 bytes for the first attempt
//	${permits}              what the permits begin with of the first attempt, in Redisson's layout
//	\n, \x20                as in Go
func (c *call) text(value string) string {
	if strings.Contains(value, `\`) {
		var err error
		value, err = strconv.Unquote(`"` + value + `"`)
		require.NoError(c, err)
	}
	return placeholder.ReplaceAllStringFunc(value, func(m string) string {
		f := placeholder.FindStringSubmatch(m)
		switch {
		case f[4] != "":
			return id(f[4] + f[5])
		case f[6] != "":
			return stamp(c.duration(f[6]))
		}
		switch f[1] {
		case "who":
			return id(c.attempt(0))
		case "nonce":
			return permitsOf(c.attempt(0))[1:]
		case "permits":
			return permitsOf(c.attempt(0))
		case "whose":
			return id(c.attempt(0)[:1])
		case "second":
			return id(c.attempt(1))
		case "others":
			all := ""
			for _, a := range c.attempts[1:] {
				all += id(a)[22:]
				if f[3] != "" {
					all += c.argument(f[3][1:])
				}
			}
			return all
		case "now":
			if f[2] == "" {
				return stamp(c.clock)
			}
			return stamp(c.clock + c.duration(f[2]))
		case "heartbeat":
			c.heartbeats++
			return fmt.Sprintf("%012drandom-%d", c.heartbeats, c.heartbeats%10)
		case "prefix":
			return c.prefix
		}
		return c.argument(f[1])
	})
}

func (c *call) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	require.NoError(c, err)
	return d
}

func (c *call) attempt(i int) string {
	require.Greater(c, len(c.attempts), i, "the call names too few attempts")
	return c.attempts[i]
}

// id returns a session for a letter, and the id of an attempt for a letter and a number.
func id(name string) string {
	session := strings.Repeat(name[:1], 22)
	if len(name) == 1 {
		return session
	}
	n, _ := strconv.Atoi(name[1:])
	return session + fmt.Sprintf("%019d", n)
}

// permitsOf returns 12 bytes for an attempt with a number of one digit.
func permitsOf(name string) string { return strings.Repeat(name[:1], 11) + name[1:] }

func stamp(sinceNoon time.Duration) string {
	return fmt.Sprintf("%016d", noon+sinceNoon.Microseconds())
}

// These are what tidy shortens.
var (
	stamps  = regexp.MustCompile(`\d{16}|\b178\d{10}\b`)
	ids     = regexp.MustCompile(`([a-z])[a-z]{21}(\d{19})?`)
	ownIDs  = regexp.MustCompile(`([a-z])[a-z]{10}(\d)\\x00\\x00\\x00\\x0(\d)`)
	nths    = regexp.MustCompile(`0{16}\d{3}`)
	numbers = regexp.MustCompile(`(\d{12})random-\d`)
	// Of these a server says more than the others.
	refusals = regexp.MustCompile(`WRONGTYPE|OOM|NOPERM|not an integer`)
	failure  = regexp.MustCompile(`(?s)^(?:Error |ERR Error |user_script|ERR user_script).*?:\s*\d+:\s*(.*?)(?:\s+script: .*|\s+stack traceback.*)?$`)
)

// tidy shortens what a server returns or stores: the reverse of text.
func (s *scene) tidy(value string) string {
	value = strings.ReplaceAll(value, s.prefix, "")
	if m := failure.FindStringSubmatch(value); m != nil {
		value = "ERR " + m[1] // the words before and after it depend on the server
	}
	value = numbers.ReplaceAllStringFunc(value, func(m string) string {
		n, _ := strconv.Atoi(m[:12])
		return fmt.Sprintf(" #%d ", n)
	})
	value = ids.ReplaceAllStringFunc(value, func(m string) string {
		if strings.Count(m[:22], m[:1]) < 22 {
			return m
		}
		if len(m) == 22 {
			return " " + m[:1] + " "
		}
		n, _ := strconv.Atoi(m[22:])
		return fmt.Sprintf(" %s%d ", m[:1], n)
	})
	value = ownIDs.ReplaceAllString(value, " ${1}${2}.${3} ")
	value = nths.ReplaceAllStringFunc(value, func(m string) string {
		n, _ := strconv.Atoi(m)
		return fmt.Sprintf(" .%d ", n)
	})
	value = stamps.ReplaceAllStringFunc(value, func(m string) string {
		us, _ := strconv.ParseInt(m, 10, 64)
		if len(m) == 13 {
			us *= 1000
		}
		d := time.Duration(us-noon) * time.Microsecond
		if d < -24*time.Hour || d > 1000*time.Hour {
			return m
		}
		return " @" + d.String() + " "
	})
	value = strings.ReplaceAll(strings.Join(strings.Fields(value), " "), "[ ", "[")
	return strings.ReplaceAll(strings.ReplaceAll(value, " ]", "]"), " ,", ",")
}

// shown returns a reply, or an error, as a text.
func shown(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return "nil"
	case error:
		if kind := refusals.FindString(reply.Error()); kind != "" {
			return "ERR " + kind
		}
	case []any:
		all := make([]string, len(reply))
		for i, each := range reply {
			all[i] = shown(each)
		}
		return "[" + strings.Join(few(all), ", ") + "]"
	case string:
		if reply == "" {
			return "''"
		}
		return printable(reply)
	}
	return fmt.Sprint(reply)
}

// printable escapes what is not printable.
func printable(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// wait advances the clock, and deletes the keys that have expired.
func (s *scene) wait(d time.Duration) {
	s.Helper()
	s.clock += d
	for _, key := range s.keys() {
		if left, ends := s.left(key); ends && left <= 0 {
			s.MustDo(s, "DEL", key)
		}
	}
}

// keys returns the keys of the scene in their order.
func (s *scene) keys() []string {
	s.Helper()
	keys := texts(s.MustDo(s, "KEYS", s.prefix+"*"))
	slices.Sort(keys)
	return keys
}

// left returns how long a key lives, by the clock of the scene.
func (s *scene) left(key string) (d time.Duration, ends bool) {
	s.Helper()
	ms := redistest.EndOf(s, s, key)
	return time.Duration(ms-redistest.LaterMS-noon/1000)*time.Millisecond - s.clock.Truncate(time.Millisecond), ms >= 0
}

// state returns a line for each key.
func (s *scene) state() (lines []string) {
	s.Helper()
	for _, key := range s.keys() {
		life := "no end"
		if left, ends := s.left(key); ends {
			life = left.String()
		}
		lines = append(lines, fmt.Sprintf("= %s (%s): %s", strings.TrimPrefix(key, s.prefix), life, s.tidy(s.value(key))))
	}
	if len(lines) == 0 {
		return []string{"= nothing"}
	}
	return lines
}

// value returns the value of a key.
func (s *scene) value(key string) string {
	s.Helper()
	switch kind := s.MustDo(s, "TYPE", key); kind {
	case "string":
		return shown(s.MustDo(s, "GET", key))
	case "list":
		return shown(s.MustDo(s, "LRANGE", key, 0, -1))
	case "set":
		members := texts(s.MustDo(s, "SMEMBERS", key))
		slices.Sort(members)
		return strings.Join(few(members), "; ")
	case "hash":
		fields := pairs(texts(s.MustDo(s, "HGETALL", key)))
		slices.Sort(fields)
		return strings.Join(few(fields), "; ")
	case "zset":
		members := texts(s.MustDo(s, "ZRANGE", key, 0, -1, "WITHSCORES"))
		for i := 1; i < len(members); i += 2 { // servers write large scores in several ways
			score, err := strconv.ParseFloat(members[i], 64)
			require.NoError(s, err)
			members[i] = strconv.FormatFloat(score, 'f', -1, 64)
		}
		return strings.Join(few(pairs(members)), "; ")
	default:
		require.FailNow(s, "no test reads a key of this type", "%v", kind)
		return ""
	}
}

// few shortens a long list.
func few(all []string) []string {
	if n := len(all); n > 24 {
		return append(slices.Clone(all[:2]), fmt.Sprintf("and %d more", n-4), all[n-2], all[n-1])
	}
	return all
}

// pairs joins each two texts.
func pairs(all []string) (joined []string) {
	for pair := range slices.Chunk(all, 2) {
		joined = append(joined, strings.Join(pair, ": "))
	}
	return joined
}

// texts returns the elements of a reply, printable.
func texts(reply any) (all []string) {
	for _, each := range reply.([]any) {
		all = append(all, printable(each.(string)))
	}
	return all
}
