// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"flag"
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

var rewrite = flag.Bool("rewrite", false, "write what the scripts do into testdata/*.txt")

// The cases of testdata/*.txt are what scripts do: calls, "----", and then what each replied and published, and what keys are left.
// A blank line parts two cases, and the first line names the promise. The scripts are those of the folder that begins the file's name.
//
//	enter a1 queues=0 life_us=30s
//	wait 3s
//	leave a1 used=@5us
//
// A call names a script, the attempts for which it is, and what differs from the usual arguments, which testdata/arguments has: a
// line of arguments is a pattern of scripts, the name of an argument in their headers, and its text. In a text, and in the values of a
// call, a1 behind a dollar sign is the id of session a's first attempt, a its session, and @5us a stamp after noon; see scene.text.
// keys=2 sends the first two keys alone, keys=x,y these, and argv=x,y these arguments in place of those of the header. Other lines:
//
//	wait 3s                     the clock goes on; keys end
//	listen grants:$b            a subscription to a channel
//	do SET holder any-text      a command; its first argument is a key
//
// -rewrite writes what is below the dashes. A reviewer reads the difference.
func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	for _, world := range worlds() {
		for _, file := range files {
			t.Run(world+"/"+strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				t.Parallel()
				playFile(t, world, file)
			})
		}
	}
}

// playFile runs the cases of a file. Under -rewrite it writes the file.
func playFile(t *testing.T, world, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	base := strings.TrimSuffix(filepath.Base(file), ".txt")
	folder, _, _ := strings.Cut(base, "_")
	cases := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n\n")
	for i, c := range cases {
		calls, want, _ := strings.Cut(c, "\n----\n")
		title, _, _ := strings.Cut(calls, "\n")
		t.Run(strings.TrimPrefix(title, "# "), func(t *testing.T) {
			inWorld(t, world, func(w *World) {
				got := newScene(w, folder).play(calls)
				if *rewrite {
					cases[i] = calls + "\n----\n" + got
					return
				}
				require.Equal(w, want, got, "%s: cd test && go test ./suite -run '%s'", file, w.Name())
			})
		})
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(strings.Join(cases, "\n\n")+"\n"), 0o600))
	}
}

// noon is where the clock of a scene begins, in microseconds: a time in 2026.
const noon = 1_780_000_000_000_000

// later is what is added to the end of each key, in milliseconds: the server ends none.
const later = 315_360_000_000

// clocked goes before a script. Its clock is that of the scene, the last argument, in microseconds; keys end by it, and are deleted
// when the scene waits.
const clocked = redistest.KeyEnds + `local server, us = redis, table.remove(ARGV)
local at = later + math.floor(us / 1000)
local function run(how, command, key, ...)
  local args = {...}
  if command == 'TIME' then
    return {string.sub(us, 1, -7), string.sub(us, -6)}
  elseif command == 'PTTL' or command == 'PEXPIRETIME' then
    local known, ends = pcall(key_ends, key)
    if known and ends >= 0 then
      return command == 'PTTL' and ends - at or ends - later
    end
  elseif command == 'PEXPIRE' then
    command, args[1] = 'PEXPIREAT', string.format('%.0f', at + args[1])
  elseif command == 'SET' and args[2] == 'PX' then
    args[2], args[3] = 'PXAT', string.format('%.0f', at + args[3])
  end
  return server[how](command, key, unpack(args))
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
`

// scene is what one case plays in: keys of its own, and a clock.
type scene struct {
	*World

	folder string        // of the scripts
	prefix string        // of all keys and channels
	clock  time.Duration // since noon
	beats  int           // heartbeats so far
	heard  chan string   // messages, in their order
}

func newScene(w *World, folder string) *scene {
	w.Helper()
	s := &scene{World: w, folder: folder, prefix: fmt.Sprintf("sb:{%s}:", w.prefix), heard: make(chan string, 1000)}
	s.listen(func(c rueidis.Builder) rueidis.Completed { return c.Psubscribe().Pattern(s.prefix + "*").Build() })
	return s
}

// listen makes a subscription, and returns when it is there.
func (s *scene) listen(to func(c rueidis.Builder) rueidis.Completed) {
	s.Helper()
	c, release := s.admin.Dedicate()
	s.atEnd(release)
	confirmed := make(chan struct{}, 1)
	c.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Pattern != "" { // else it is heard twice
				s.heard <- strings.TrimPrefix(m.Channel, s.prefix) + " " + m.Message
			}
		},
		OnSubscription: func(rueidis.PubSubSubscription) { confirmed <- struct{}{} },
	})
	require.NoError(s, c.Do(s.Context(), to(s.admin.B())).Error())
	redistest.Receive(s, "a subscription", confirmed)
}

// do sends a command.
func (s *scene) do(words ...string) (rueidis.RedisMessage, error) {
	return s.admin.Do(s.Context(), s.admin.B().Arbitrary(words...).Build()).ToMessage()
}

// play makes the calls of a case, and returns what is to be below its dashes.
func (s *scene) play(calls string) string {
	var said []string
	for line := range strings.SplitSeq(calls, "\n") {
		if line != "" && line[0] != '#' {
			said = append(said, s.line(line)...)
		}
	}
	return strings.Join(append(said, s.state()...), "\n")
}

// line does what a line says, and returns what came of it.
func (s *scene) line(line string) (said []string) {
	s.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "wait":
		d, err := time.ParseDuration(rest)
		require.NoError(s, err, line)
		s.wait(d)
		return nil
	case "listen":
		s.listen(func(c rueidis.Builder) rueidis.Completed {
			return c.Subscribe().Channel(s.prefix + (&call{scene: s}).text(rest)).Build()
		})
		return nil
	case "do":
		words := strings.Fields(rest)
		for i := range words {
			words[i] = (&call{scene: s}).text(words[i])
		}
		words[1] = s.prefix + words[1]
		reply, err := s.do(words...)
		return []string{line + " -> " + s.tidy(replied(reply, err))}
	}
	reply, err := s.call(line)
	said = []string{line + " -> " + s.tidy(replied(reply, err))}
	const end = "the end of what was said"
	_, err = s.do("PUBLISH", s.prefix+"end", end)
	require.NoError(s, err)
	for {
		m := redistest.Receive(s, "messages", s.heard)
		if strings.HasSuffix(m, end) {
			return said
		}
		said = append(said, "  told "+s.tidy(m))
	}
}

// field is a line of a header about a key or an argument. One of a group has the index n.
var field = regexp.MustCompile(`(?m)^-- (KEYS|ARGV)\[(\d+)\]  (\w+)`)

// call is a call of a script.
type call struct {
	*scene

	script   *scripts.Script // nil in lines that call none
	attempts []string        // for which it is
	given    map[string]string
	used     map[string]bool // what of that went into an argument
}

// call runs a script.
func (s *scene) call(line string) (rueidis.RedisMessage, error) {
	s.Helper()
	words := strings.Fields(line)
	c := &call{scene: s, script: scripts.Load(path.Join(s.folder, words[0]), 1), given: make(map[string]string), used: map[string]bool{"keys": true, "argv": true}}
	if c.script == nil {
		c.script = scripts.Load(words[0], 1)
	}
	require.NotNil(s, c.script, "no script for %q", line)
	for _, word := range words[1:] {
		if name, value, ok := strings.Cut(word, "="); ok {
			c.given[name] = value
		} else {
			c.attempts = append(c.attempts, word)
		}
	}
	var keys, args []string
	_, isWhole := c.given["argv"]
	for _, m := range field.FindAllStringSubmatch(c.script.Source, -1) {
		if m[1] == "KEYS" {
			keys = append(keys, m[3])
		} else if !isWhole {
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
	if isWhole {
		for value := range strings.SplitSeq(c.given["argv"], ",") {
			args = append(args, c.text(value))
		}
	}
	for name := range c.given {
		require.True(s, c.used[name], "%s has no %s", c.script.Name, name)
	}
	for i := range keys {
		keys[i] = s.prefix + keys[i]
	}
	text := fmt.Sprintf("local later = %d\n", int64(later)) + clocked + c.script.Source
	command := append([]string{"EVAL", text, strconv.Itoa(len(keys))}, keys...)
	return s.do(append(append(command, args...), strconv.FormatInt(noon+s.clock.Microseconds(), 10))...)
}

// argument returns what the call, or testdata/arguments, says of an argument.
func (c *call) argument(name string) string {
	c.Helper()
	value, ok := c.given[name]
	c.used[name] = true
	if !ok {
		value, ok = usual(c.script.Name, name)
	}
	require.True(c, ok, "testdata/arguments has no %s of %s", name, c.script.Name)
	return inUnit(name, c.text(value))
}

// usual returns what an argument of a script is if a call does not name it: the last line of testdata/arguments that fits.
func usual(script, name string) (value string, ok bool) {
	for _, line := range arguments() {
		f := strings.SplitN(line, " ", 3)
		if fits, _ := path.Match(f[0], script); fits && f[1] == name {
			value, ok = strings.Join(f[2:], ""), true
		}
	}
	return value, ok
}

func arguments() []string {
	text, _ := os.ReadFile("testdata/arguments")
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
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

// What stands for something longer in a text: in braces, a session or an attempt, and a stamp.
var short = regexp.MustCompile(`\$\{([a-z]+)([+-]\w+)?(:\w+)?\}|\$([a-z])(\d*)|@(-?[0-9][0-9a-zµ.]*)`)

// text replaces what stands for something longer:
//
//	$a, $a1                 a session, and the id of its first attempt
//	@5us                    a stamp after noon
//	${who}, ${whose}        the id of the first attempt that the call names, and its session
//	${second}               the id of the second one
//	${others}               the attempts behind the first one, without their session
//	${others:mode}          the same, each with the value of mode behind it
//	${now}, ${now+3s}       a stamp of the clock, and one after that
//	${beat}                 the number of one more heartbeat
//	${prefix}               of keys and channels
//	${mode}                 what the call or testdata/arguments says of mode
func (c *call) text(value string) string {
	return short.ReplaceAllStringFunc(value, func(m string) string {
		f := short.FindStringSubmatch(m)
		switch {
		case f[4] != "":
			return id(f[4] + f[5])
		case f[6] != "":
			return stamp(c.duration(f[6]))
		}
		switch f[1] {
		case "who":
			return id(c.attempt(0))
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
			return stamp(c.clock + c.duration(f[2][1:]))
		case "beat":
			c.beats++
			return fmt.Sprintf("%012drandom-%d", c.beats, c.beats%10)
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
func id(short string) string {
	session := strings.Repeat(short[:1], 22)
	if len(short) == 1 {
		return session
	}
	n, _ := strconv.Atoi(short[1:])
	return session + fmt.Sprintf("%019d", n)
}

func stamp(sinceNoon time.Duration) string {
	return fmt.Sprintf("%016d", noon+sinceNoon.Microseconds())
}

// What tidy makes short.
var (
	stamps   = regexp.MustCompile(`\d{16}`)
	holders  = regexp.MustCompile(`([a-z])[a-z]{21}(\d{19})?`)
	attempts = regexp.MustCompile(`0{16}\d{3}`)
	beats    = regexp.MustCompile(`(\d{12})random-\d`)
	errorOf  = regexp.MustCompile(`(?s)^(?:Error |ERR Error |user_script|ERR user_script).*?:\s*\d+:\s*(.*?)(?:\s+script: .*|\s+stack traceback.*)?$`)
)

// tidy makes what a server says short: the reverse of text.
func (s *scene) tidy(value string) string {
	value = strings.ReplaceAll(value, s.prefix, "")
	if m := errorOf.FindStringSubmatch(value); m != nil {
		value = "ERR " + m[1] // an embedded server has other words around it, and both have a line
	}
	value = beats.ReplaceAllStringFunc(value, func(m string) string {
		n, _ := strconv.Atoi(m[:12])
		return fmt.Sprintf(" #%d ", n)
	})
	value = holders.ReplaceAllStringFunc(value, func(m string) string {
		if strings.Count(m[:22], m[:1]) < 22 {
			return m
		}
		if len(m) == 22 {
			return " " + m[:1] + " "
		}
		n, _ := strconv.Atoi(m[22:])
		return fmt.Sprintf(" %s%d ", m[:1], n)
	})
	value = attempts.ReplaceAllStringFunc(value, func(m string) string {
		n, _ := strconv.Atoi(m)
		return fmt.Sprintf(" .%d ", n)
	})
	value = stamps.ReplaceAllStringFunc(value, func(m string) string {
		us, _ := strconv.ParseInt(m, 10, 64)
		d := time.Duration(us-noon) * time.Microsecond
		if d < -24*time.Hour || d > 1000*time.Hour {
			return m
		}
		return " @" + d.String() + " "
	})
	value = strings.ReplaceAll(strings.Join(strings.Fields(value), " "), "[ ", "[")
	return strings.ReplaceAll(strings.ReplaceAll(value, " ]", "]"), " ,", ",")
}

// replied returns a reply, or an error, as a text.
func replied(reply rueidis.RedisMessage, err error) string {
	if rueidis.IsRedisNil(err) || reply.IsNil() {
		return "nil"
	}
	if err != nil {
		return err.Error()
	}
	if list, err := reply.ToArray(); err == nil {
		var all []string
		for _, each := range list {
			all = append(all, replied(each, each.Error()))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	if n, err := reply.AsInt64(); err == nil && reply.IsInt64() {
		return strconv.FormatInt(n, 10)
	}
	text, err := reply.ToString()
	if err != nil {
		return err.Error()
	}
	if text == "" {
		return "''"
	}
	return printable(text)
}

func printable(text string) string {
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// wait lets the clock go on, and ends keys.
func (s *scene) wait(d time.Duration) {
	s.Helper()
	s.clock += d
	for _, key := range s.keys() {
		if left, ends := s.left(key); ends && left <= 0 {
			_, err := s.do("DEL", key)
			require.NoError(s, err)
		}
	}
}

func (s *scene) keys() []string {
	s.Helper()
	reply, err := s.do("KEYS", s.prefix+"*")
	require.NoError(s, err)
	keys, err := reply.AsStrSlice()
	require.NoError(s, err)
	slices.Sort(keys)
	return keys
}

// left returns how long a key lives, by the clock of the scene.
func (s *scene) left(key string) (d time.Duration, ends bool) {
	s.Helper()
	reply, err := s.do("EVAL", redistest.KeyEnds+"return key_ends(KEYS[1])", "1", key)
	require.NoError(s, err)
	ms, err := reply.AsInt64()
	require.NoError(s, err)
	return time.Duration(ms-later-noon/1000)*time.Millisecond - s.clock.Truncate(time.Millisecond), ms >= 0
}

// state returns the keys, in their order, with their lives.
func (s *scene) state() (lines []string) {
	s.Helper()
	for _, key := range s.keys() {
		life := "no end"
		if left, ends := s.left(key); ends {
			life = left.String()
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", strings.TrimPrefix(key, s.prefix), life, s.tidy(s.value(key))))
	}
	if len(lines) == 0 {
		return []string{"nothing"}
	}
	return lines
}

// value returns what a key has.
func (s *scene) value(key string) string {
	s.Helper()
	kind, err := s.do("TYPE", key)
	require.NoError(s, err)
	name, err := kind.ToString()
	require.NoError(s, err)
	read := map[string][]string{
		"string": {"GET", key}, "hash": {"HGETALL", key}, "list": {"LRANGE", key, "0", "-1"}, "set": {"SMEMBERS", key},
		"zset": {"ZRANGE", key, "0", "-1", "WITHSCORES"},
	}[name]
	require.NotNil(s, read, "a key of type %s", name)
	reply, err := s.do(read...)
	require.NoError(s, err)
	if name == "string" || name == "list" {
		return replied(reply, nil)
	}
	all, err := reply.AsStrSlice()
	require.NoError(s, err)
	size := 2
	if name == "set" {
		size = 1
	}
	var pairs []string
	for pair := range slices.Chunk(all, size) {
		if score, err := strconv.ParseFloat(pair[size-1], 64); err == nil && name == "zset" {
			pair[1] = strconv.FormatFloat(score, 'f', -1, 64)
		}
		pairs = append(pairs, printable(strings.Join(pair, ": ")))
	}
	if name != "zset" {
		slices.Sort(pairs)
	}
	return strings.Join(pairs, "; ")
}
