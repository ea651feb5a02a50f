// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"encoding/binary"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Refusal is an error reply, in the server's words.
type Refusal string

// Outcome returns what a script returned: an int, int64 or string, a Refusal, or a []any of these.
func Outcome(returned any) wire.Outcome {
	reply, err := wire.NewReply(Result(returned))
	return wire.Outcome{Reply: reply, Err: err}
}

// Result is Outcome as a client returns it.
func Result(returned any) rueidis.RedisResult {
	// The client makes messages out of two things, its connection and its cache. This is the cache.
	var message rueidis.RedisMessage
	if err := message.CacheUnmarshalView(encodeReply(make([]byte, 7), returned)); err != nil {
		panic(err)
	}
	return rueidis.NewResult(message, nil)
}

// encodeReply writes a message as the client's cache does, after the seven bytes of its life.
func encodeReply(to []byte, returned any) []byte {
	switch value := returned.(type) {
	case int:
		return encodeReply(to, int64(value))
	case int64:
		return binary.BigEndian.AppendUint64(append(to, ':'), uint64(value)) //nolint:gosec // read back as it was
	case string:
		return append(binary.BigEndian.AppendUint64(append(to, '$'), uint64(len(value))), value...)
	case Refusal:
		return append(binary.BigEndian.AppendUint64(append(to, '-'), uint64(len(value))), value...)
	case []any:
		to = binary.BigEndian.AppendUint64(append(to, '*'), uint64(len(value)))
		for _, element := range value {
			to = encodeReply(to, element)
		}
		return to
	}
	panic(fmt.Sprintf("a script does not return a %T", returned))
}
