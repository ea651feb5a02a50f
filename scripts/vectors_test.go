// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
	"github.com/signalbox-go/signalbox/scripts"
)

// vectors are what clients in all languages agree on; README.md says what each is.
type vectors struct {
	Names []struct {
		NameHex          string `json:"name_hex"`
		Prefix           string
		Encoded          string
		Hashed           string
		Holder           string
		Queue            string
		Heartbeats       string
		Grants           string
		GrantsInACluster string `json:"grants_in_a_cluster"`
		SessionChannel   string `json:"session_channel"`
	}
	IDs []struct {
		SessionHex string `json:"session_hex"`
		Session    string
		Counter    uint64
		RandomHex  string `json:"random_hex"`
		Attempt    string
		Mode       string
		Ticket     string
	}
	Numbers []struct {
		Counter   int64
		RandomHex string `json:"random_hex"`
		Number    string
	}
	Tokens []struct {
		Stamp string
		First uint64 `json:"first_token"`
		Last  uint64 `json:"last_token_of_the_block"`
	}
	Deadlines []struct {
		Sent     int64 `json:"sent_us"`
		Life     int64 `json:"life_us"`
		Deadline int64 `json:"deadline_us"`
	}
	HolderValues []struct {
		Value  string
		Kind   string
		Stamp  string
		Ticket string
		Marked bool
		Label  string
	} `json:"holder_values"`
	Grants []struct {
		Text   string
		Grants []struct{ Attempt, Stamp, Number string }
	}
	Exchange []exchange
	Indexes  []struct {
		KeyHex string `json:"key_hex"`
		Shards uint32 `json:"shards"`
		Index  uint32 `json:"index"`
	} `json:"indexes"`
}

// exchange is a call of a client, and what it does while the server's clock stands.
type exchange struct {
	What     string
	Script   string
	Now      string
	Args     []string
	Reply    any
	Holder   string
	Messages []struct{ Channel, Text string }
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	require.NoError(t, err)
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&v))
	return v
}

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	return raw
}

func TestVectorsOfNames(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	require.NotEmpty(t, v.Names)
	id := v.IDs[0].Session
	for _, n := range v.Names {
		name := string(bytesOf(t, n.NameHex))
		require.Equal(t, n.Encoded, proto.Encode(name))
		require.Equal(t, n.Hashed, proto.Hash(name))
		set, err := proto.NativeNames(proto.NamingOptions{Prefix: n.Prefix}, name)
		require.NoError(t, err)
		require.Equal(t, []string{n.Holder, n.Queue, n.Heartbeats}, set.AppendKeys(nil))
		require.Equal(t, n.Grants, proto.Grants(n.Prefix)+id)
		require.Equal(t, n.GrantsInACluster, set.Grants()+id)
		require.Equal(t, n.SessionChannel, proto.Session(n.Prefix, id))
	}
}

func TestVectorsOfIDsTokensAndDeadlines(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	text := base64.RawURLEncoding.EncodeToString
	for _, id := range v.IDs {
		require.Equal(t, id.Session, text(bytesOf(t, id.SessionHex)))
		counter := binary.BigEndian.AppendUint64(nil, id.Counter)[2:]
		require.Equal(t, id.Attempt, text(append(counter, bytesOf(t, id.RandomHex)...)))
		require.Equal(t, id.Ticket, id.Session+id.Attempt+id.Mode)
	}
	for _, n := range v.Numbers {
		require.Equal(t, n.Number, digits(n.Counter)[4:]+text(bytesOf(t, n.RandomHex)))
	}
	for _, c := range v.Tokens {
		stamp := wire.ParseStamp(c.Stamp)
		require.Equal(t, c.First, stamp.Token())
		require.Equal(t, c.Last, (stamp + wire.TokenBlock - 1).LastToken())
	}
	for _, c := range v.Deadlines {
		sent := timers.Now()
		deadline := timers.Deadline(sent, time.Duration(c.Life)*time.Microsecond)
		require.Equal(t, time.Duration(c.Deadline-c.Sent)*time.Microsecond, deadline.Mono()-sent.Mono())
	}
}

func TestVectorsOfValuesAndGrants(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, h := range v.HolderValues {
		value := "sb1" + h.Kind + h.Stamp
		if h.Kind == "l" {
			ticket, mark := h.Ticket, "-"
			if h.Marked {
				mark = "q"
			}
			if ticket == "" {
				ticket = strings.Repeat("-", 42)
			}
			value += ticket + mark + h.Label
		}
		require.Equal(t, value, h.Value)
	}
	for _, g := range v.Grants {
		var text strings.Builder
		for _, one := range g.Grants {
			text.WriteString(one.Attempt + one.Stamp + one.Number)
		}
		if len(g.Text)%55 == 0 {
			require.Equal(t, text.String(), g.Text)
		} else {
			require.Empty(t, g.Grants, "it is no such text")
		}
	}
}

// The example of an exchange is what the scripts do.
func TestVectorsOfAnExchange(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.isTimed = true
	name := strings.TrimSuffix(f.key, "lock")
	keys := []string{f.key, name + "queue", name + "heartbeats"}
	all, err := scripts.All()
	require.NoError(t, err)
	for _, step := range readVectors(t).Exchange {
		f.clock = int64(wire.ParseStamp(step.Now))
		var script *scripts.Script
		for _, s := range all {
			if s.Name == step.Script {
				script = s
			}
		}
		require.NotNil(t, script, step.Script)
		var listeners []*listener
		for _, m := range step.Messages {
			at := *f
			at.channel = m.Channel
			listeners = append(listeners, at.listen())
		}
		args := make([]any, len(step.Args))
		for i, arg := range step.Args {
			args[i] = arg
		}
		reply, err := f.tryKeys(script, keys, args...)
		require.NoError(t, err)
		require.Equal(t, integers(step.Reply), reply, step.What)
		require.Equal(t, step.Holder, f.value(), step.What)
		for i, m := range step.Messages {
			require.Equal(t, []string{m.Text}, listeners[i].received(), step.What)
		}
	}
}

// integers returns what JSON says of a reply with its numbers as the server has them.
func integers(reply any) any {
	switch reply := reply.(type) {
	case float64:
		return int64(reply)
	case []any:
		for i := range reply {
			reply[i] = integers(reply[i])
		}
	}
	return reply
}

// A key belongs to the same shard in every language.
func TestVectorsOfIndexes(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	require.NotEmpty(t, v.Indexes)
	for _, i := range v.Indexes {
		key, err := hex.DecodeString(i.KeyHex)
		require.NoError(t, err)
		digest := sha256.Sum256(key)
		require.Equal(t, i.Index, binary.BigEndian.Uint32(digest[:4])%i.Shards, "%q of %d", key, i.Shards)
	}
}
